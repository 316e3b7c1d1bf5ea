"""What `tools/bench` measures: one module for each benchmark, with its command in `app`."""
