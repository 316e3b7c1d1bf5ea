# SPDX-License-Identifier: Apache-2.0
"""What this machine has and lacks."""
