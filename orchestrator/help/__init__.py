# SPDX-License-Identifier: Apache-2.0
"""The topics of `hipsnet help`: text in Markdown, with tables that are made from the code."""
