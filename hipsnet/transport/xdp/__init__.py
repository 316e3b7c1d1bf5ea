"""The transport over the userspace stack: queue pairs on AF_XDP sockets of this process."""
