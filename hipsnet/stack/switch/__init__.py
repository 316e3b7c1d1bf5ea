# SPDX-License-Identifier: Apache-2.0
"""The lossless soft switch: what it counts and tells."""
