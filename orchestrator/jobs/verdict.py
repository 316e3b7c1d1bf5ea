# SPDX-License-Identifier: Apache-2.0
"""The message for a job that failed: which rank failed first, why and when, and one line for the others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from orchestrator.jobs.launch import Ending, Outcome


def lines(servers: Sequence[str], outcome: Outcome) -> Iterator[str]:
    """The message for an outcome with a failure: the cause, then the other ranks."""
    cause = outcome.failure
    assert cause is not None
    rank = cause.program
    since = time.strftime("%H:%M:%S", time.localtime(outcome.started_s + cause.time_s))
    yield f"{servers[rank]} (rank {rank}) {_reason(cause)}, {cause.time_s:.1f} s after the start, at {since}"
    if len(servers) > 1:
        yield f"the other {_ranks(len(servers) - 1)}: {_others(outcome, cause)}"


def _reason(ending: Ending) -> str:
    found = ending.failure
    if found is None or (ending.status < 0 and not ending.is_ordered):
        return str(ending)
    code = "" if ending.status == 1 or ending.is_ordered else f", exit code {ending.status}"
    return f"failed: {found.kind}: {found.message}{code}"


def _others(outcome: Outcome, cause: Ending) -> str:
    counts: Counter[str] = Counter()
    for ending in outcome.endings:
        if ending is not cause:
            counts[_fate(ending)] += 1
    text = ", ".join(f"{count} {fate}" for fate, count in counts.most_common())
    shown = any(ending.failure and ending is not cause for ending in outcome.endings)
    return text + ("; --verbose shows each traceback" if shown else "")


def _fate(ending: Ending) -> str:
    if ending.failure and ending.failure.is_survivor:
        return f"stopped because of that ({ending.failure.kind})"
    if ending.status == 0:
        return "ended without an error"
    if ending.is_ordered:
        return "ended by hipsnet"
    return "also failed"


def _ranks(count: int) -> str:
    return f"{count} rank{'' if count == 1 else 's'}"
