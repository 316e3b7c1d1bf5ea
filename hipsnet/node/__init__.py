"""Making one Linux node match its configuration."""
