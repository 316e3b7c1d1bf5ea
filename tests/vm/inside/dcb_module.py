# SPDX-License-Identifier: Apache-2.0
"""The kernel module `dcbdummy`, its card, and the forwarding program, made for the machine's kernel.

Outside if that can be: an emulated processor takes a minute for each.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernel
from hipsnet.errors import CapabilityError

CARD = "card0"
MAC = "02:48:00:dc:b0:00"
PFC, ETS, APP, BUFFER, ETHTOOL, MAX_RATE, DCBX = (1 << bit for bit in range(7))
FEATURES = PFC | ETS | APP | BUFFER | ETHTOOL | MAX_RATE | DCBX
PARAMETERS = Path("/sys/module/dcbdummy/parameters")
Card = Callable[[int], str]
_SOURCES = Path(__file__).with_name("dcbdummy")
_COMPILE = """\
import platform, sys
platform.release = lambda: sys.argv[1]
from hipsnet.node.programs import ensure_programs
ensure_programs(("forward",))
"""


@functools.cache
def prepare() -> None:
    """Build both where the machine finds them. If that fails here, the machine builds them or reports why not."""
    if "HIPSNET_VM" in os.environ or os.geteuid() != 0:
        return
    from tools.virtual_machine.installed import find_kernel

    try:
        image = find_kernel()
    except CapabilityError:
        return
    release = image.parent.name if image.name == "vmlinuz" else image.name.removeprefix("vmlinuz-")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        still_clock()
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


def make_card(features: int) -> str:
    """Make the card with these features, anew if it is there; returns its name."""
    run("ip", "link", "del", CARD, check=False)
    (PARAMETERS / "features").write_text(str(features))
    # Born with a MAC: udev gives a card whose MAC is random another one, at a time of its own.
    run("ip", "link", "add", "name", CARD, "address", MAC, "type", "dcbdummy")
    return CARD


def run(*command: str | Path, check: bool = True) -> str:
    """What a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def shown(*what: str) -> Any:
    """The output of iproute2's dcb for the card."""
    return json.loads(run("dcb", "-j", *what, "show", "dev", CARD))


def dcb(command: str) -> None:
    """Have iproute2's dcb set something.

    Before 6.2 it leaves the kernel's acknowledgement in its socket, and takes it for the answer to its next
    request. As it numbers requests by the second, it ends in "Protocol error", or does half of what it should, if
    a second passes in between (iproute2 d0e02f35, "dcb: Do not leave ACKs in socket receive buffer"). For it, none
    does; nor does it see then what a driver refuses.
    """
    environment = os.environ | {"LD_PRELOAD": str(still_clock())}
    done = subprocess.run(
        ["dcb", *command.split()], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    # `app replace` answers 0 whatever happened.
    assert (done.returncode, done.stderr) == (0, ""), f"dcb {command}: {done.stderr}"


def still_clock() -> Path:
    """The library with a clock that stands still."""
    source = Path(__file__).with_name("still_clock.c")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    cached = kernel.cache_folder() / f"still_clock.so-{digest}"
    if not cached.is_file():
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_suffix(f".{os.getpid()}")
        command = ["cc", "-shared", "-fPIC", "-o", str(partial), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
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
