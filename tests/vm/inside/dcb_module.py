"""The kernel module `dcbdummy` and the forwarding program, made for the machine's kernel.

Outside if that can be: an emulated processor takes a minute for each.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kernel
from hipsnet.errors import CapabilityError

_SOURCES = Path(__file__).with_name("dcbdummy")
_COMPILE = """\
import platform, sys
platform.release = lambda: sys.argv[1]
from hipsnet.node.programs import ensure_programs
ensure_programs(("forward",))
"""


def prepare() -> None:
    """Make both where the machine will find them. What cannot be made here is made in there, or told."""
    if "HIPSNET_VM" in os.environ or os.geteuid() != 0:
        return
    from tools.virtual_machine.installed import find_kernel

    try:
        image = find_kernel()
    except CapabilityError:
        return
    release = image.parent.name if image.name == "vmlinuz" else image.name.removeprefix("vmlinuz-")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        if Path("/lib/modules", release, "build").is_dir():
            build(release)
        compiling = [sys.executable, "-c", _COMPILE, release]
        subprocess.run(compiling, cwd=Path(__file__).parents[3], capture_output=True, timeout=300)


def build(release: str) -> Path:
    """The module for a kernel; CalledProcessError with the compiler's words if it cannot be built."""
    cached = _cached(release)
    if cached.is_file():
        return cached
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "dcbdummy")
        shutil.copytree(_SOURCES, tree)
        headers = f"/lib/modules/{release}/build"
        command = ["make", "-s", "-C", headers, f"M={tree}", "modules"]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        cached.parent.mkdir(parents=True, exist_ok=True)
        built = tree / "dcbdummy.ko"
        partial = cached.with_suffix(f".{os.getpid()}")
        shutil.copyfile(built, partial)
        partial.replace(cached)
    return cached


def load() -> None:
    """Load the module into the running kernel."""
    subprocess.run(["insmod", build(platform.release())], check=True, capture_output=True, timeout=60)


def unload() -> None:
    """Remove the module, and with it the devices."""
    subprocess.run(["rmmod", "dcbdummy"], check=True, capture_output=True, timeout=60)


def _cached(release: str) -> Path:
    content = b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()) if path.is_file())
    return kernel.cache_folder() / f"dcbdummy-{release}-{hashlib.sha256(content).hexdigest()[:16]}.ko"
