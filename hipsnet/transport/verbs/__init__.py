# SPDX-License-Identifier: Apache-2.0
"""The transport over an RDMA device's queue pairs; `transport` needs pyverbs, what knows no device does not."""
