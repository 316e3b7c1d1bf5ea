# SPDX-License-Identifier: Apache-2.0
"""The reliable connection: the C core and queue pairs for Python."""
