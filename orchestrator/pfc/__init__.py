"""PFC for the operator: what headroom consists of, which thresholds to take, what has happened."""
