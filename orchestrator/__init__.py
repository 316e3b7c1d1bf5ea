# SPDX-License-Identifier: Apache-2.0
"""Many nodes: the command line, the lab, jobs and reports."""
