# SPDX-License-Identifier: Apache-2.0
"""Jobs: one program on every server, the user's own or the one of `hipsnet run` that measures."""
