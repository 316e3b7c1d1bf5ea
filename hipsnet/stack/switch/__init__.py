"""The lossless soft switch: what it counts and tells."""
