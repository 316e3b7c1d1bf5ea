# SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
"""Programs that run inside the kernel: C sources, compiled at run time by bcc."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
PINS = Path("/sys/fs/bpf/hipsnet")
"""Where a node's maps and program are pinned: <fabric>/<node>/<map>."""


SHARED_CACHE = Path("/var/cache/hipsnet")
"""Root's folder of compiled programs. Others may read it, so that what root has compiled serves all."""


def cache_folder() -> Path:
    """The folder of compiled programs: in $XDG_CACHE_HOME, which is ignored unless it is an absolute path."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "hipsnet"
    return SHARED_CACHE if os.geteuid() == 0 else Path.home() / ".cache/hipsnet"


def sources() -> dict[str, str]:
    """The text of every source and header, by file name, sorted."""
    return {path.name: path.read_text() for path in sorted(FOLDER.glob("*.[ch]"))}


@cache
def reasons() -> dict[str, str]:
    """The fates of a frame: the names of the counters with their meanings, from reasons.h."""
    return dict(re.findall(r'REASON\((\w+),\s*"([^"]*)"\)', (FOLDER / "reasons.h").read_text()))


@cache
def constant(name: str) -> int:
    """The value of a `#define` of an integer. Raises KeyError if there is none of that name."""
    pattern = re.compile(rf"^#define {re.escape(name)} +(\d+)U?L*\b", re.MULTILINE)
    found = pattern.search("\n".join(sources().values()))
    if found is None:
        raise KeyError(f"{FOLDER} has no constant {name}")
    return int(found[1])
