# SPDX-License-Identifier: Apache-2.0
"""The transport over queue pairs of an RDMA device. Modules that do not open a device work without pyverbs."""
