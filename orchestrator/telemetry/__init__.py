"""What the ports of a fabric count: read, made into rates, and judged."""
