"""Pictures and texts of a topology."""
