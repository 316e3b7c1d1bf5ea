# SPDX-License-Identifier: Apache-2.0
"""A virtual machine that runs the distribution's own kernel with this machine's files inside.

The kernel at hand may lack what the distribution's has (RDMA devices in software, modules, qdiscs): what
needs them is run here. See README.md.
"""
