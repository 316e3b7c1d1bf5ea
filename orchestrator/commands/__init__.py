# SPDX-License-Identifier: Apache-2.0
"""The commands of `hipsnet`, grouped by subject."""
