# SPDX-License-Identifier: Apache-2.0
"""Making one Linux node match its configuration."""
