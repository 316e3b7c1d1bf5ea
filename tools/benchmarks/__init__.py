# SPDX-License-Identifier: Apache-2.0
"""What `tools/bench` measures: one module for each benchmark, with its command in `app`."""
