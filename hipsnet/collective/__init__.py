"""Collectives as data: schedules, the algorithms that write them, the executor that runs them."""
