# SPDX-License-Identifier: Apache-2.0
"""`hipsnet predict`, `plan` and `export`: their options, tables and pictures."""
