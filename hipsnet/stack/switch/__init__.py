# SPDX-License-Identifier: Apache-2.0
"""The lossless soft switch: its counters and events."""
