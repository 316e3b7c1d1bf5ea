"""The loop of an endpoint over its ports."""
