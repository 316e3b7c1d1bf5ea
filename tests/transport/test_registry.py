# SPDX-License-Identifier: Apache-2.0
"""From names to transports: every setting has one, and a library that is missing is named with its cure."""

from __future__ import annotations

import sys

import pytest

from hipsnet import settings
from hipsnet.errors import CapabilityError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.registry import OPENERS, Options, open_transport


def test_every_transport_that_can_be_set_can_be_opened() -> None:
    assert tuple(OPENERS) == settings.TRANSPORTS


def test_without_pyverbs_verbs_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("hipsnet.transport.verbs")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("pyverbs.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "pyverbs", None)
    greeting = Greeting(0, 2, "same", "token")
    with pytest.raises(CapabilityError, match="apt install python3-pyverbs"):
        open_transport("verbs", greeting, Options(29490))
    open_transport("tcp", greeting, Options(29490)).close()
