# SPDX-License-Identifier: Apache-2.0
"""The userspace networking stack: C programs on rings that they share with the kernel."""
