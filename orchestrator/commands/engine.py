# SPDX-License-Identifier: Apache-2.0
"""The options of the engine, made from its settings for every command that plans or runs a synchronization."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer

from hipsnet.settings import VARIABLES, Settings, Variable

Engine = Mapping[str, Any]
"""The settings that were given, by field of `Settings`."""

_DEFAULTS = {field.name: field.default for field in fields(Settings)}
_SWITCHES = {field.name for field in fields(Settings) if field.type == "bool"}


def engine_options(*chosen: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of these settings to a command, or of all that have a flag; their values are its `engine`.

    A wrong value raises InputError naming the flag, or the variable that it came from.
    """
    rows = [row for row in VARIABLES if row.flag and (not chosen or row.field in chosen)]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(context: typer.Context, **arguments: Any) -> None:
            texts = {row.field: arguments.pop(row.field) for row in rows}
            command(**arguments, engine=_read(rows, texts, context))

        own = inspect.signature(command, eval_str=True)
        kept = [parameter for name, parameter in own.parameters.items() if name != "engine"]
        added = [_parameter("context", typer.Context), *map(_option, rows)]
        wrapped.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
        return wrapped

    return decorate


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _option(row: Variable) -> inspect.Parameter:
    assert row.flag is not None
    switch = row.field in _SWITCHES
    default = _DEFAULTS[row.field]
    option = typer.Option(
        row.flag.name,
        envvar=row.name,
        metavar=None if switch else row.flag.metavar,
        help=row.flag.help,
        show_default=_shown(row, default),
        rich_help_panel=row.flag.group,
    )
    annotation, absent = (Annotated[bool, option], False) if switch else (Annotated[str | None, option], None)
    return _parameter(row.field, annotation, absent)


def _shown(row: Variable, default: Any) -> str:
    """The default as the help shows it."""
    if row.field in _SWITCHES:
        return "off"
    return "that of the fabric" if default == () else row.kind.show(default)


def _read(rows: list[Variable], texts: Mapping[str, Any], context: typer.Context) -> Engine:
    given = {}
    for row in rows:
        text = "1" if texts[row.field] is True else texts[row.field]
        if row.flag and text not in (None, False):
            source = context.get_parameter_source(row.field)
            by_variable = source is not None and source.name == "ENVIRONMENT"
            given[row.field] = row.read(text, row.name if by_variable else row.flag.name)
    return given
