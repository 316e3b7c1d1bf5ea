# SPDX-License-Identifier: Apache-2.0
"""Schedules and fabrics in the formats of other engines and simulators."""
