# SPDX-License-Identifier: Apache-2.0
"""Pictures and texts of a topology."""
