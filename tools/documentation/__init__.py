# SPDX-License-Identifier: Apache-2.0
"""The parts of the documentation that are made from the code; `tools/docs` writes them, a test compares them."""
