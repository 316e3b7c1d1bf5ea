# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several tests in the machine share: network cards made by the test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vm.inside import dcb_module
from tests.vm.inside.dcb_module import CARD, FEATURES, Card, run


@pytest.fixture(scope="session")
def module() -> Iterator[None]:
    dcb_module.load()
    yield
    dcb_module.unload()


@pytest.fixture
def make_card(module: None) -> Iterator[Card]:
    """Make the card with these features, anew if it is there."""
    yield dcb_module.make_card
    run("ip", "link", "del", CARD, check=False)


@pytest.fixture
def card(make_card: Card) -> str:
    return make_card(FEATURES)
