# SPDX-License-Identifier: Apache-2.0
"""The transport over the userspace stack: queue pairs on AF_XDP sockets of this process."""
