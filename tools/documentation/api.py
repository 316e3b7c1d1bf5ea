# SPDX-License-Identifier: Apache-2.0
"""The API reference in Markdown, from signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import textwrap
from abc import ABC
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pydantic import BaseModel

MODULES: dict[str, tuple[str, ...]] = {
    "hipsnet": ("init",),
    "hipsnet.collective.communicator": ("Communicator",),
    "hipsnet.collective.calls": ("Calls",),
    "hipsnet.collective.work": ("Work",),
    "hipsnet.settings": ("Settings",),
    "hipsnet.errors": (),
    "hipsnet.topology": (),
    "hipsnet.units": (),
}
"""The modules that programs use, with their objects; without names: all that are public."""


def text() -> str:
    """The whole reference."""
    head = "# Python API\n\nWritten by `tools/docs` from the docstrings: do not edit.\n"
    return head + "".join(_module(name, names) for name, names in MODULES.items())


def _module(name: str, names: tuple[str, ...]) -> str:
    module = importlib.import_module(name)
    lines = [f"\n## {name}\n", *_prose(module)]
    for known in names or _public(module):
        lines += _object(known, getattr(module, known))
    return "\n".join(lines)


def _public(module: ModuleType) -> list[str]:
    """The names in `__all__`, else those that the module defines, in the order of its text."""
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return listed
    return [
        name
        for name, found in vars(module).items()
        if not name.startswith("_")
        and getattr(found, "__module__", "") == module.__name__
        and callable(found)
    ]


def _object(name: str, found: Any) -> Iterator[str]:
    if inspect.isclass(found):
        yield from _class(found)
    elif callable(found):
        yield from _callable(name, found, "###")
    else:
        members = ", ".join(getattr(member, "__name__", repr(member)) for member in found)
        yield f"### {name}\n\n    {name} = ({members})\n"


def _class(found: type) -> Iterator[str]:
    bases = [base.__name__ for base in found.__bases__ if base not in (object, ABC, BaseModel)]
    yield f"### class {found.__name__}{f'({bases[0]})' if bases else ''}\n"
    yield from _prose(found)
    yield from _fields(found)
    for name, member in vars(found).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield from _property(found, name, member)
        elif inspect.isfunction(member):
            yield from _callable(f"{found.__name__}.{name}", member, "####")
        elif isinstance(member, classmethod | staticmethod):
            yield from _callable(f"{found.__name__}.{name}", member.__func__, "####")


def _fields(found: type) -> Iterator[str]:
    if issubclass(found, BaseModel) or issubclass(found, enum.Enum) or not dataclasses.is_dataclass(found):
        return
    for field in dataclasses.fields(found):
        missing = field.default is dataclasses.MISSING
        yield f"- `{field.name}: {field.type}{'' if missing else f' = {field.default!r}'}`"
    yield ""


def _property(owner: type, name: str, member: property) -> Iterator[str]:
    result = inspect.signature(member.fget).return_annotation if member.fget else ""
    yield f"#### {owner.__name__}.{name}: `{result}`\n"
    yield from _prose(member)


def _callable(name: str, found: Any, level: str) -> Iterator[str]:
    yield f"{level} {name}\n"
    yield f"    {name.rpartition('.')[2]}{_signature(found)}\n"
    yield from _prose(found)


def _signature(found: Any) -> str:
    """Print defaults as in the source: os.environ as a name, not its value."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(found))).body
    assert isinstance(tree, ast.FunctionDef)
    arguments = tree.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        del arguments.args[0]
    return f"({ast.unparse(arguments)}) -> {ast.unparse(tree.returns) if tree.returns else 'None'}"


def _prose(found: Any) -> Iterator[str]:
    if text := inspect.getdoc(found):
        yield f"{text}\n"
