# SPDX-License-Identifier: Apache-2.0
"""What the ports of a fabric count: read, made into rates, and judged."""
