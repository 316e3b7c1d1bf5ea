# SPDX-License-Identifier: Apache-2.0
"""Making, changing, comparing and removing a fabric: the lab's, or one host's part."""
