# SPDX-License-Identifier: Apache-2.0
"""The generated parts of the documentation: `tools/docs` writes them, a test compares them."""
