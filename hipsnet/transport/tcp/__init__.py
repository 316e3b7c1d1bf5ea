"""The transport over kernel TCP sockets."""
