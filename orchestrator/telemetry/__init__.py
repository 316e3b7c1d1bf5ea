# SPDX-License-Identifier: Apache-2.0
"""The counters of a fabric's ports: sources, rates, and the detection of pauses, storms and deadlocks."""
