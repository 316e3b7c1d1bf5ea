# SPDX-License-Identifier: Apache-2.0
"""The features that this machine supports or lacks."""
