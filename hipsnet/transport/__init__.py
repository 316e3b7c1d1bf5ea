# SPDX-License-Identifier: Apache-2.0
"""Moving bytes between neighbours: one verbs-shaped interface."""
