# SPDX-License-Identifier: Apache-2.0
"""The identity of a node for the programs on it: its hostname, and a hosts file with the names of all servers.

Both belong to a UTS and a mount namespace of the program's own, so nothing on the machine changes, and nothing is
left when the program ends.
"""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path

from hipsnet.errors import CapabilityError
from hipsnet.node.namespace import NAMED
from hipsnet.node.system_calls import check, libc
from hipsnet.topology import Fabric

HOSTS = Path("/etc/hosts")
_CLONE_NEWNS, _CLONE_NEWUTS = 0x00020000, 0x04000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 8, 0x1000, 0x4000, 1 << 19
_MNT_DETACH = 2


def hosts(fabric: Fabric) -> str:
    """The hosts file of a fabric: its servers' identities, their ports' addresses, then the machine's own file.

    A server's name has its identity address only. Names like `s01.p0` and `s01.lo` have the address of one
    interface, and are the results of reverse lookups (also those of c10d for IPv4-mapped IPv6 addresses). If the
    machine's file has one of these names, the fabric's line precedes it and takes effect.
    """
    lines = [f"# servers of {fabric.name}, by hipsnet"]
    lines += [f"{server.identity}\t{server.name} {server.name}.lo" for server in fabric.servers]
    ports = [(port, port.address.ip) for server in fabric.servers for port in server.ports if port.address]
    lines += [f"{address}\t{port.node}.{port.name}" for port, address in ports]
    lines += [f"::ffff:{server.identity}\t{server.name}.lo" for server in fabric.servers]
    lines += [f"::ffff:{address}\t{port.node}.{port.name}" for port, address in ports]
    try:
        own = HOSTS.read_text(errors="surrogateescape")
    except FileNotFoundError:
        own = "127.0.0.1\tlocalhost\n"
    return "\n".join(lines) + "\n\n" + own


def assume(hostname: str, hosts_file: str) -> None:
    """Give the calling process, for good, this hostname and this text as /etc/hosts.

    Changes to the machine's mounts still reach the process; its own do not reach the machine. The process must
    have a single thread. Raises CapabilityError without root, or where the machine has no /etc/hosts.
    """
    check(libc.unshare(_CLONE_NEWNS | _CLONE_NEWUTS), "make a mount and a UTS namespace")
    socket.sethostname(hostname)
    _mount("none", Path("/"), None, _MS_REC | _MS_SLAVE)
    # The file needs its own file system. It is mounted over an existing folder and unmounted again: a bind mount
    # keeps it alive.
    _mount("tmpfs", NAMED, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "mode=755")
    try:
        source = NAMED / "hosts"
        source.write_text(hosts_file, errors="surrogateescape")
        source.chmod(0o644)
        if not HOSTS.exists():
            raise CapabilityError(
                f"this machine has no {HOSTS}; make an empty one, so that names can be added"
            )
        _mount(str(source), HOSTS, None, _MS_BIND)
    finally:
        check(libc.umount2(os.fsencode(NAMED), _MNT_DETACH), f"unmount {NAMED}")


def _mount(source: str, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    result = libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
    check(result, f"mount {target}")
