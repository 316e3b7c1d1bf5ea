# SPDX-License-Identifier: Apache-2.0
"""Wires: the connections of a transport, as the engine's core uses them."""
