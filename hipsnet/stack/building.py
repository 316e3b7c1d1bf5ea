"""The C programs of this room: compiled once on a machine, and kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import kernel
from hipsnet.errors import CapabilityError

FOLDER = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")


def binary(name: str, folder: Path) -> Path:
    """The program `<name>.c` of this room, kept in `folder` under a digest of its sources; compiled if need be.

    Raises CapabilityError without a C compiler, or with what the compiler said.
    """
    source = FOLDER / f"{name}.c"
    texts = (source, *sorted(kernel.FOLDER.glob("*.h")))
    digest = hashlib.sha256(b"\0".join([*(text.read_bytes() for text in texts), repr(_FLAGS).encode()]))
    path = folder / f"{name}-{digest.hexdigest()[:16]}"
    if not _is_trusted(path):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _compile(source, path)
    return path


def _is_trusted(path: Path) -> bool:
    """Whether the program is there, and nobody else can have written it."""
    try:
        return path.stat().st_uid == path.parent.stat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def _compile(source: Path, path: Path) -> None:
    """Whole or not at all, also when two processes do it at once."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    os.close(handle)
    try:
        command = ["cc", *_FLAGS, f"-I{kernel.FOLDER}", "-o", part, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CapabilityError(f"cannot compile {source.name}:\n{done.stderr.strip()}")
        Path(part).chmod(0o700)
        Path(part).replace(path)
    except FileNotFoundError:
        raise CapabilityError(
            f"a C compiler wanted for {source.name}, no cc found; run: apt install gcc libc6-dev"
        ) from None
    finally:
        Path(part).unlink(missing_ok=True)
