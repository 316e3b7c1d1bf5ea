# SPDX-License-Identifier: Apache-2.0
"""The userspace networking stack: C on rings shared with the kernel, and its Python bindings."""
