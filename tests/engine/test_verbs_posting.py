# SPDX-License-Identifier: Apache-2.0
"""The choice between libibverbs and pyverbs, on a machine without a device."""

from __future__ import annotations

from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

from hipsnet.engine.wire.verbs_library import libibverbs, library
from hipsnet.errors import CapabilityError
from hipsnet.stack import building

posting = pytest.importorskip("hipsnet.engine.wire.verbs_posting", reason="pyverbs is needed")

BOUND_S = 60.0
NOTHING: Any = SimpleNamespace(devices=[], connections=[])


def test_libibverbs_is_used_where_it_can_be_compiled() -> None:
    made = posting.fastest(library(), NOTHING)
    assert isinstance(made, posting.LibibverbsPosting)
    made.close()


def test_pyverbs_is_used_without_libibverbs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(_: object) -> None:
        raise CapabilityError("libibverbs or its headers are missing; run: apt install libibverbs-dev")

    monkeypatch.setattr(posting, "libibverbs", missing)
    made = posting.fastest(library(), NOTHING)
    assert isinstance(made, posting.PyverbsPosting)
    made.close()
    assert "every write takes a call of Python: libibverbs or its headers are missing" in caplog.text


@pytest.mark.parametrize(
    "message", ["fatal error: infiniband/verbs.h: No such file or directory", "cannot find -libverbs"]
)
def test_the_missing_package_is_named(message: str) -> None:
    assert "libibverbs or its headers are missing; run: apt install libibverbs-dev" in building._reason(
        message
    )


def test_objects_without_the_pointers_are_refused() -> None:
    """Such as those of a version of pyverbs that keeps its pointers elsewhere."""
    device = SimpleNamespace(completions=Exception(1, 2, 3), descriptor=0)
    with pytest.raises(
        CapabilityError, match="the completion queue is not found in the objects of this pyverbs"
    ):
        posting.LibibverbsPosting(library(), SimpleNamespace(devices=[device], connections=[]))


def test_following_a_word_cannot_fault() -> None:
    ffi, _ = library()
    lib = libibverbs(library())
    hostile = [0, 1, 7, 8, 1 << 46, 1 << 63, 2**64 - 8, 2**64 - 1, id(ffi)]
    words = ffi.new("u64[]", hostile)
    assert lib.verbs_ibverbs_find_queue(words, len(hostile), 3) == 0
    for queue in hostile:
        assert lib.verbs_ibverbs_find_pair(words, len(hostile), 17, queue) == 0


def test_an_interrupt_in_a_callback_is_raised_again() -> None:
    def interrupted(_: int) -> int:
        raise KeyboardInterrupt

    function = posting.callback(library(), "int(int)", interrupted, 5)
    with pytest.raises(KeyboardInterrupt):
        assert function(1) == 5
        end_s = monotonic() + BOUND_S
        while monotonic() < end_s:
            sleep(0.01)


def test_an_error_of_a_callback_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_: int) -> int:
        raise ValueError("planted")

    assert posting.callback(library(), "int(int)", broken, 5)(1) == 5
    assert "planted" in capsys.readouterr().err
