# SPDX-License-Identifier: Apache-2.0
"""AF_XDP sockets: opened, or handed over."""
