# SPDX-License-Identifier: Apache-2.0
"""The loop of an endpoint over its ports."""
