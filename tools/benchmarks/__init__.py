# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of `tools/bench`: one module each, with its command in `app`."""
