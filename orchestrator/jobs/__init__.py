# SPDX-License-Identifier: Apache-2.0
"""Jobs: one program on every server, and the measuring one that `hipsnet run` brings along."""
