"""Topology: what a network looks like, as pure data and mathematics."""
