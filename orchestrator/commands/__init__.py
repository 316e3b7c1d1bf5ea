# SPDX-License-Identifier: Apache-2.0
"""The commands of `hipsnet`, grouped by what they are about."""
