# SPDX-License-Identifier: Apache-2.0
"""The layout of keys and values in memory: from the compiler's description of a C type to a numpy dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

_SCALARS = {
    "char": "u1",
    "unsigned char": "u1",
    "unsigned short": "u2",
    "int": "i4",
    "unsigned int": "u4",
    "unsigned long long": "u8",
}


def dtype_of(description: Any, size: int) -> np.dtype[Any]:
    """The dtype of a type in bcc's description (a name, or `[name, fields, kind]`), of `size` bytes.

    Raises ValueError for a type that the programs do not use, or if the sizes differ.
    """
    dtype = _type(description)
    if dtype.itemsize != size:
        raise ValueError(f"{description}: has {dtype.itemsize} bytes, not {size}")
    return dtype


def _type(description: Any) -> np.dtype[Any]:
    if isinstance(description, str):
        if description not in _SCALARS:
            raise ValueError(f"no layout for the C type {description!r}")
        return np.dtype(_SCALARS[description])
    _, fields, *_ = description
    return np.dtype([_field(*field) for field in fields])


def _field(name: str, description: Any, extent: list[int] | None = None) -> tuple[Any, ...]:
    return (name, _type(description)) if extent is None else (name, _type(description), tuple(extent))
