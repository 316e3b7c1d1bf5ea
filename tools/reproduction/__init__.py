# SPDX-License-Identifier: Apache-2.0
"""docs/paper.md: the claims of the HiPS slides, and what the models here give."""
