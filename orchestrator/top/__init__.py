# SPDX-License-Identifier: Apache-2.0
"""`hipsnet top`: the ports of a fabric on a full screen, live. Everything that imports Textual is in here."""
