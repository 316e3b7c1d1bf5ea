# SPDX-License-Identifier: Apache-2.0
"""Names of maps and programs in bpffs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hipsnet.node.bpf.call import answer, libbpf


def pin(fd: int, path: Path) -> None:
    """Give a map or program a name in bpffs."""
    answer(libbpf().bpf_obj_pin(fd, os.fsencode(path)), f"pin {path}")


def open_pin(path: Path) -> int | None:
    """Open the map or program that is pinned at `path`; None if there is none."""
    fd = libbpf().bpf_obj_get(os.fsencode(path))
    return None if fd == -errno.ENOENT else answer(fd, f"open {path}")
