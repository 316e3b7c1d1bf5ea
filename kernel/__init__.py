"""Programs that run inside the kernel: C sources, compiled at run time by bcc."""
