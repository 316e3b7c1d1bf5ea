"""AF_XDP sockets: opened, or handed over."""
