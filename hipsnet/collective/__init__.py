# SPDX-License-Identifier: Apache-2.0
"""Collectives as data: schedules, the algorithms that write them, the communicator that runs them."""
