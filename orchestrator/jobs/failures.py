# SPDX-License-Identifier: Apache-2.0
"""The receiving end of failure reports: a datagram socket that the programs of a job reach by its path."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from hipsnet.failures import REPORT_BYTES, Failure


class Inbox:
    """Receives the reports of one job. Close it, or use `with`.

    Programs in other namespaces and programs that a program starts reach it, for its address is a path.
    """

    def __init__(self, path: Path, owner: int = -1) -> None:
        """Only the user id `owner` (-1: that of this process) may send. Raises OSError if /run is full."""
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._socket.bind(os.fspath(path))
        os.chown(path, owner, -1)
        path.chmod(0o600)

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> list[Failure]:
        """The reports received so far; invalid ones are dropped."""
        found = []
        with suppress(BlockingIOError):
            while True:
                data = self._socket.recv(REPORT_BYTES)
                with suppress(ValueError):
                    found.append(Failure.from_bytes(data))
        return found

    def close(self) -> None:
        self._socket.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
