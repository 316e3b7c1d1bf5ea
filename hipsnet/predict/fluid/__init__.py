# SPDX-License-Identifier: Apache-2.0
"""The fluid simulator: C compiled on first use, and its Python interface."""
