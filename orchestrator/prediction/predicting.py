# SPDX-License-Identifier: Apache-2.0
"""`hipsnet predict`: compute, print and write what was asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.jobs.request import Request
from orchestrator.prediction import asked, measured, picture, table
from orchestrator.prediction.asked import Options
from orchestrator.prediction.bar import bar
from orchestrator.prediction.results import Prediction, document, predicted
from orchestrator.views.figures import naming


@dataclass(frozen=True)
class Outputs:
    """Where results go besides the table."""

    json: str | None = None
    picture: Path | None = None
    measured: Sequence[Path] = ()


def predict(
    files: Sequence[Path], request: Request, options: Options, outputs: Outputs, engine: Mapping[str, Any]
) -> None:
    """Predict for every file. Raises InputError before anything is computed, as far as that is possible."""
    if outputs.picture:
        picture.require_ending(outputs.picture)
    cases = request.vectors(options.dtype)
    known = [measured.read(file) for file in outputs.measured]
    subjects = [asked.subject(file, options) for file in files]
    calls = [asked.calls(one, options.algorithm, cases, options.dtype, engine) for one in subjects]
    lines = sys.stderr if outputs.json == "-" else sys.stdout
    found: list[Prediction] = []
    columns = table.columns(bool(known))
    with bar() as (report, shown):
        for subject, own in zip(subjects, calls, strict=True):
            for number, one in enumerate(predicted(subject, own, options, known, report)):
                found.append(one)
                shown.clear()
                if number == 0:
                    heading = (*table.title(one, options.fluid), *table.heading(columns))
                    print(*heading, sep="\n", file=lines)
                print(table.row(columns, one), file=lines, flush=True)
                if one.note and not (number and one.note == found[-2].note):
                    print(f"# {one.call.algorithm.name}: {one.note}", file=lines)
    _write(outputs, options, found)


def _write(outputs: Outputs, options: Options, found: Sequence[Prediction]) -> None:
    if outputs.picture:
        picture.draw(outputs.picture, found)
    if outputs.json is None:
        return
    text = json.dumps(document(options, found), indent=2)
    if outputs.json == "-":
        print(text)
    else:
        file = Path(outputs.json)
        with naming(file):
            file.write_text(text + "\n", encoding="utf-8")
