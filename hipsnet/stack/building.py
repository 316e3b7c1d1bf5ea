# SPDX-License-Identifier: Apache-2.0
"""The C programs and libraries of this package: compiled once on a machine, and cached."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import kernel
from hipsnet.errors import CapabilityError
from hipsnet.ownership import CACHE_ADVICE, is_private_file, make_private, require_private

FOLDER = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
_LIBRARY_FLAGS = ("-fPIC", "-shared")
_MISSING = re.compile(r"fatal error: (\w+)/\S+: No such file|cannot find -l(\w+)")
_PACKAGES = {
    "xdp": "libxdp-dev libbpf-dev",
    "bpf": "libxdp-dev libbpf-dev",
    "ibverbs": "libibverbs-dev",
}
"""By library."""

_LIBRARIES = {"infiniband": "ibverbs"}
"""By folder of headers, where it has another name than the library."""

_INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


COMPILING_S, LOOK_S = 60.0, 0.05


def binary(name: str, sources: Sequence[str], folder: Path, link: Sequence[str] = ()) -> Path:
    """The program of `sources` (paths in this package), cached in `folder` under a digest of its parts.

    It is compiled if necessary, and linked with the libraries `link` (`bpf` for -lbpf). Raises CapabilityError
    without a C compiler, with the compiler's messages, or if others could write in `folder`.
    """
    return _built(name, sources, folder, (), link)


def library(name: str, sources: Sequence[str], folder: Path, link: Sequence[str] = ()) -> Path:
    """A shared library for cffi; otherwise like `binary`."""
    return _built(f"{name}.so", sources, folder, _LIBRARY_FLAGS, link)


def _built(
    name: str, sources: Sequence[str], folder: Path, flags: Sequence[str], link: Sequence[str]
) -> Path:
    files = [FOLDER / source for source in sources]
    command = ["cc", *_FLAGS, *flags, *(f"-I{folder}" for folder in _include_folders())]
    libraries = [f"-l{item}" for item in link]
    parts = [*_texts(files).values(), repr(command[1:]).encode()]
    digest = hashlib.sha256(b"\0".join(parts))
    digest.update(repr(libraries).encode())
    path = folder / f"{name}-{digest.hexdigest()[:16]}"
    if os.geteuid() != 0 and _is_shared(kernel.SHARED_CACHE / path.name):
        return kernel.SHARED_CACHE / path.name
    make_private(folder, 0o700, CACHE_ADVICE)
    if folder == kernel.SHARED_CACHE:
        folder.chmod(0o755)
    if not is_private_file(path):
        with _one_at_a_time(folder / ".compiling"):
            if not is_private_file(path):
                _compile(name, [*command, *map(str, files), *libraries], path)
    if path.stat().st_uid == os.geteuid():
        path.chmod(0o755)  # access is limited by the folder
    return path


def _is_shared(path: Path) -> bool:
    """Whether root has compiled it already, in the folder that everybody may read."""
    try:
        require_private(path.parent, CACHE_ADVICE)
        return is_private_file(path) and os.access(path, os.R_OK | os.X_OK)
    except (OSError, CapabilityError):
        return False


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock: nine ranks that start at once need one compiler, not nine. Go on without it after a while."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = monotonic() + COMPILING_S
        while not _took(handle) and monotonic() < deadline:
            sleep(LOOK_S)
        yield
    finally:
        os.close(handle)


def _took(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _include_folders() -> tuple[Path, ...]:
    """The folders of headers: those of the stack, of hipsnet's other packages, of the kernel programs."""
    return FOLDER, FOLDER.parent, kernel.FOLDER


def _texts(sources: Sequence[Path]) -> dict[Path, bytes]:
    """The sources and all headers of this repository that they include, directly or not.

    The same as `cc -MM`, but fast, and without a compiler on machines where the program is cached.
    """
    found: dict[Path, bytes] = {}
    waiting = [*sources]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = file.read_bytes()
        for name in _INCLUDE.findall(found[file]):
            places = [folder / name.decode() for folder in (file.parent, *_include_folders())]
            waiting += [place for place in places if place.is_file()][:1]
    return found


def _compile(name: str, command: Sequence[str], path: Path) -> None:
    """Whole or not at all, also when two processes do it at once."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    os.close(handle)
    try:
        environment = {**os.environ, "LC_ALL": "C"}  # _reason() reads the messages
        done = subprocess.run(
            [*command, "-o", part], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CapabilityError(f"cannot compile {name}{_reason(done.stderr)}")
        Path(part).chmod(0o700)
        Path(part).replace(path)
    except FileNotFoundError:
        raise CapabilityError(
            f"cannot compile {name}: there is no C compiler (cc); run: apt install gcc libc6-dev"
        ) from None
    finally:
        Path(part).unlink(missing_ok=True)


def _reason(errors: str) -> str:
    """The package to install, if a library or its headers are missing; else the output of the compiler."""
    for words in _MISSING.findall(errors):
        found = next(filter(None, words))
        found = _LIBRARIES.get(found, found)
        if found in _PACKAGES:
            return f": lib{found} or its headers are missing; run: apt install {_PACKAGES[found]}"
    return f":\n{errors.strip()}"
