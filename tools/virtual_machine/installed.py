# SPDX-License-Identifier: Apache-2.0
"""The programs that a virtual machine requires, and their packages."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
from pathlib import Path

from hipsnet.errors import CapabilityError

_PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "modprobe": "kmod",
    "file": "file",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}


def find_kernel(root: Path = Path("/")) -> Path:
    """The image of the newest kernel below `root` that is installed with its modules.

    Raises CapabilityError naming the package if there is none.
    """
    images = {path.name.removeprefix("vmlinuz-"): path for path in (root / "boot").glob("vmlinuz-*")}
    images |= {path.parent.name: path for path in (root / "lib/modules").glob("*/vmlinuz")}
    whole = [release for release in images if (root / "lib/modules" / release / "kernel").is_dir()]
    if not whole:
        found = ", ".join(str(path) for path in images.values()) or "none"
        raise CapabilityError(
            f"requires a kernel with its modules in {root / 'boot'} and {root / 'lib/modules'}; "
            f"found {found}; apt install {_kernel_package(root)}"
        )
    return images[max(whole, key=_version)]


def require_programs() -> None:
    """Raise CapabilityError naming the missing programs and their packages."""
    if platform.machine() != "x86_64":
        raise CapabilityError(f"requires x86_64, as the guest is x86_64; found {platform.machine()}")
    if os.geteuid() != 0:
        raise CapabilityError("requires root, to create namespaces for the machine; run with sudo")
    if importlib.util.find_spec("virtme") is None:
        raise CapabilityError("virtme-ng is not installed; run tools/setup")
    missing = {program: package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise CapabilityError(f"not installed: {', '.join(missing)}; apt install {packages}")


def _kernel_package(root: Path) -> str:
    try:
        described = (root / "etc/os-release").read_text()
    except FileNotFoundError:
        described = ""
    is_ubuntu = re.search(r"^ID=\"?ubuntu", described, re.MULTILINE)
    return "linux-image-generic" if is_ubuntu else "linux-image-amd64"


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release))
