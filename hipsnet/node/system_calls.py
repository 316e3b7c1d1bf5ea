# SPDX-License-Identifier: Apache-2.0
"""System calls that the standard library does not have, through libc."""

from __future__ import annotations

import ctypes
import errno
import os

from hipsnet.errors import CapabilityError

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, action: str) -> None:
    """Raise CapabilityError or OSError if a call of `libc` has failed; `action` completes "cannot ..."."""
    if result == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.EPERM, errno.EACCES):
        raise CapabilityError(f"cannot {action}: requires CAP_SYS_ADMIN; run as root")
    raise OSError(code, f"cannot {action}: {os.strerror(code)}")
