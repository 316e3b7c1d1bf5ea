# SPDX-License-Identifier: Apache-2.0
"""Runs plans: the C core that transfers and combines segments."""
