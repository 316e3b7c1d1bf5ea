"""The reliable connection: its C core for Python, and its pairs."""
