# SPDX-License-Identifier: Apache-2.0
"""A fabric that stands on this machine: its namespaces, its record and lock, and what runs in it."""
