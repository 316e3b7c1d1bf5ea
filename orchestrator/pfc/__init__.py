# SPDX-License-Identifier: Apache-2.0
"""PFC for the operator: the parts of the headroom, the choice of thresholds, the events."""
