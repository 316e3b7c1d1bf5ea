# SPDX-License-Identifier: Apache-2.0
"""PFC for the operator: what headroom consists of, which thresholds to take, what has happened."""
