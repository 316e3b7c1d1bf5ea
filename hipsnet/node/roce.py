# SPDX-License-Identifier: Apache-2.0
"""Settings of the RDMA device on a NIC: the defaults of rdma_cm, and congestion control (ECN, DCQCN) of mlx5.

| setting | value | where |
|---|---|---|
| `roce mode` | "v1", "v2" | configfs, rdma_cm/DEVICE/ports/1/default_roce_mode |
| `roce tos` | TOS of connections of rdma_cm | configfs, rdma_cm/DEVICE/ports/1/default_roce_tos |
| `dcqcn NAME` | number | debugfs, mlx5/PCI/cc_params; or NVIDIA's own driver: sysfs, net/LINK/ecn/roce_{np,rp} |
| `ecn np 3` | receivers send CNPs: "1", "0" | NVIDIA's own driver: net/LINK/ecn/roce_np/enable/3 |
| `ecn rp 3` | senders honour CNPs: "1", "0" | NVIDIA's own driver: net/LINK/ecn/roce_rp/enable/3 |

rdma_cm's folders are created temporarily; the values written there stay until the device is removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

GROUPS = ("roce", "dcqcn", "ecn")
LACKS = {
    "roce": "it has no RDMA device, or rdma_cm is not loaded (modprobe rdma_cm, mount configfs)",
    "dcqcn": "its driver has no such congestion control parameter (mlx5: debugfs cc_params)",
    "ecn": "its driver has no switch for ECN by priority (NVIDIA's mlx5: sysfs ecn/roce_np)",
}
_MODES = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}
_FILES = {"roce mode": "default_roce_mode", "roce tos": "default_roce_tos"}


class Tree:
    """The paths of these files in the kernel's file systems; tests use another root."""

    def __init__(self, root: Path = Path("/sys")) -> None:
        self.net, self.infiniband = root / "class/net", root / "class/infiniband"
        self.rdma_cm, self.mlx5 = root / "kernel/config/rdma_cm", root / "kernel/debug/mlx5"


SYSTEM = Tree()


def device(link: str, tree: Tree = SYSTEM) -> str | None:
    """The RDMA device whose port 1 is a link, or None."""
    for path in sorted(tree.infiniband.glob("*/ports/1/gid_attrs/ndevs/0")):
        with contextlib.suppress(OSError):  # an entry without an interface cannot be read
            if path.read_text().strip() == link:
                return path.relative_to(tree.infiniband).parts[0]
    return None


def read(link: str, group: str, tree: Tree = SYSTEM) -> dict[str, str]:
    """All settings of a group that a link has."""
    if group == "roce":
        return _read_rdma_cm(link, tree)
    found = {}
    for name, path in _files(link, group, tree):
        with contextlib.suppress(
            OSError, ValueError
        ):  # a file that cannot be read, or is no number, is no setting
            found[name] = str(int(path.read_text()))
    return found


def write(link: str, group: str, values: Mapping[str, str], tree: Tree = SYSTEM) -> None:
    """Set some settings of a group. Raises OSError with the driver's error."""
    if group == "roce":
        name = device(link, tree)
        if name is None:
            return
        with _rdma_cm(name, tree) as folder:
            for setting, value in values.items():
                (folder / _FILES[setting]).write_text(_MODES.get(value, value))
        return
    files = dict(_files(link, group, tree))
    for setting, value in values.items():
        files[setting].write_text(value)


def _read_rdma_cm(link: str, tree: Tree) -> dict[str, str]:
    name = device(link, tree)
    if name is None or not tree.rdma_cm.is_dir():
        return {}
    words = {text: mode for mode, text in _MODES.items()}
    try:
        with _rdma_cm(name, tree) as folder:
            found = {setting: (folder / file).read_text().strip() for setting, file in _FILES.items()}
    except FileNotFoundError:
        return {}
    return {setting: words.get(text, text) for setting, text in found.items()}


@contextmanager
def _rdma_cm(name: str, tree: Tree) -> Iterator[Path]:
    folder = tree.rdma_cm / name
    ours = not folder.is_dir()
    if ours:
        folder.mkdir()
    try:
        yield folder / "ports/1"
    finally:
        if ours:
            folder.rmdir()


def _files(link: str, group: str, tree: Tree) -> Iterator[tuple[str, Path]]:
    """The settings of a group by name, and the file of each."""
    ecn = tree.net / link / "ecn"
    if group == "ecn":
        for path in sorted(ecn.glob("roce_[nr]p/enable/[0-7]")):
            yield f"ecn {path.parts[-3].removeprefix('roce_')} {path.name}", path
        return
    for path in sorted(ecn.glob("roce_[nr]p/*")):
        if path.is_file():
            yield f"dcqcn {path.parent.name.removeprefix('roce_')}_{path.name}", path
    # The card's own address on the bus is the name of its folder; upstream's parameters come after and win.
    card = (tree.net / link / "device").resolve().name
    for path in sorted((tree.mlx5 / card / "cc_params").glob("*")):
        yield f"dcqcn {path.name}", path
