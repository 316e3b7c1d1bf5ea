# SPDX-License-Identifier: Apache-2.0
"""The reliable connection: its C core for Python, and its pairs."""
