# SPDX-License-Identifier: Apache-2.0
"""Running plans: the C core that moves, combines and completes."""
