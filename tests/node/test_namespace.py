# SPDX-License-Identifier: Apache-2.0
"""Named network namespaces: marked when they are made, entered and left, distinguished from plain files."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from hipsnet.errors import ProvisionError
from hipsnet.node import namespace

NAME = f"t{os.getpid():x}-space"


@pytest.fixture
def space() -> Iterator[str]:
    namespace.create(NAME, "hipsnet t space")
    yield NAME
    namespace.delete(NAME)


def test_a_namespace_is_made_with_its_mark_and_listed_by_ip(space: str) -> None:
    assert space in namespace.names()
    assert namespace.mark_of(space) == "hipsnet t space"
    assert not namespace.is_leftover(space)
    listed = subprocess.run(
        ["ip", "-n", space, "link", "show", "lo"], capture_output=True, text=True, check=True
    )
    assert "alias hipsnet t space" in listed.stdout
    assert "UP" in listed.stdout


def test_the_thread_comes_back_also_after_an_error(space: str) -> None:
    home = os.stat("/proc/thread-self/ns/net").st_ino  # noqa: PTH116
    with pytest.raises(KeyError), namespace.inside(space):
        assert os.stat("/proc/thread-self/ns/net").st_ino != home  # noqa: PTH116
        raise KeyError
    assert os.stat("/proc/thread-self/ns/net").st_ino == home  # noqa: PTH116


def test_a_socket_stays_where_it_was_opened(space: str) -> None:
    with namespace.inside(space):
        listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        address = listener.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=1)
        with namespace.inside(space), socket.create_connection(address, timeout=1):
            pass


def test_a_deleted_name_is_gone_and_deleting_again_is_no_error(space: str) -> None:
    namespace.delete(space)
    namespace.delete(space)
    assert space not in namespace.names()
    assert namespace.mark_of(space) is None
    with pytest.raises(ProvisionError, match=space), namespace.inside(space):
        pass


def test_an_empty_file_is_a_leftover_and_can_be_taken_over(space: str) -> None:
    namespace.delete(space)
    (namespace.NAMED / space).touch()
    assert namespace.is_leftover(space)
    assert namespace.mark_of(space) is None
    namespace.create(space, "hipsnet t space")
    assert namespace.mark_of(space) == "hipsnet t space"


def test_a_namespace_that_ip_made_has_no_mark_and_one_of_ours_can_be_deleted_by_ip(space: str) -> None:
    other = f"{NAME}2"
    subprocess.run(["ip", "netns", "add", other], check=True)
    try:
        assert namespace.mark_of(other) is None
        assert not namespace.is_leftover(other)
    finally:
        subprocess.run(["ip", "netns", "del", other], check=True)
    subprocess.run(["ip", "netns", "del", space], check=True)
    assert space not in namespace.names()
