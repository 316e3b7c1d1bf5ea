# SPDX-License-Identifier: Apache-2.0
"""A rank's plan as the arrays that the C core reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.stack.roce.core import Core

SEGMENT = np.dtype(
    [
        ("start", np.uint64),
        ("length", np.uint32),
        ("number", np.uint32),
        ("connection", np.uint16),
        ("thread", np.uint16),
        ("stage", np.uint16),
        ("root", np.uint32),
        ("sends", np.bool_),
        ("reduces", np.bool_),
        ("fold", np.uint8),
    ],
    align=True,
)
"""`struct plan_segment`."""

FOLD_NONE, FOLD_ROOT, FOLD_NEXT, FOLD_LAST = range(4)
"""`enum plan_fold`."""

Rows = tuple[NDArray[np.uint32], NDArray[np.uint32]]
"""(start of each row, with one element more than rows; the concatenated rows)."""


@dataclass(eq=False)
class PlanArrays:
    """The contents of `struct plan`, and the arrays that it points to."""

    count: int
    longest: int
    connections: int
    segments: NDArray[Any]
    waits: NDArray[np.uint32]
    releases: Rows
    sends: Rows
    receives: Rows
    _struct: tuple[Core, Any] | None = field(default=None, init=False, repr=False)

    def struct(self, core: Core) -> Any:
        """A `struct plan *` of this library, valid as long as this object, which must not change any more."""
        if self._struct is None or self._struct[0] is not core:
            self._struct = core, self._make_struct(core)
        return self._struct[1]

    def _make_struct(self, core: Core) -> Any:
        ffi, _ = core
        plan = ffi.new("struct plan *")
        plan.count, plan.longest = self.count, self.longest
        plan.segments, plan.connections = len(self.segments), self.connections
        assert self.segments.dtype.itemsize == ffi.sizeof("struct plan_segment")
        plan.segment = ffi.cast("const struct plan_segment *", self.segments.ctypes.data)
        plan.waits = _pointer(core, self.waits)
        for name, (first, rows) in (
            ("release", self.releases),
            ("send", self.sends),
            ("receive", self.receives),
        ):
            setattr(plan, f"first_{name}", _pointer(core, first))
            setattr(plan, name, _pointer(core, rows))
        return plan


def _pointer(core: Core, array: NDArray[np.uint32]) -> Any:
    return core.ffi.cast("const u32 *", array.ctypes.data)
