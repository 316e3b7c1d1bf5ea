"""Moving bytes between neighbours: one verbs-shaped interface."""
