# SPDX-License-Identifier: Apache-2.0
"""One neighbour over RDMA: what goes out and what comes in, in the words of the transport interface."""

from __future__ import annotations

import struct
from enum import IntEnum
from time import monotonic
from typing import Any

from pyverbs.enums import IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM
from pyverbs.pyverbs_error import PyverbsError

from hipsnet.transport.interface import Completion, ConnectionLost, Event, Peer
from hipsnet.transport.verbs.device import Device
from hipsnet.transport.verbs.devices import Endpoint, port_state, why_lost
from hipsnet.transport.verbs.flow import CREDIT, Incoming, Message, Outgoing, Posting, Write
from hipsnet.transport.verbs.memory import Memory, Registration
from hipsnet.transport.verbs.queue_pair import HEADER_BYTES, PROBE, QueuePair, Request
from hipsnet.transport.verbs.status import SUCCESS, explain

HEADER = struct.Struct("<B7xQ")  # kind, credit: how many receives have been posted again
REGION = struct.Struct("<IIQQ")  # key, remote key of the verbs, address, length

assert HEADER.size == HEADER_BYTES


class Kind(IntEnum):
    """What a SEND carries."""

    CREDIT = CREDIT.kind
    MESSAGE = 1
    REGION = 2  # memory that the peer may write into: announced once, before the message that names its key


class Connection:
    """A queue pair, the state of both directions, and the memory that the peer has announced."""

    def __init__(self, index: int, peer: Peer, endpoint: Endpoint, device: Device, memory: Memory) -> None:
        self.index = index
        self.peer = peer
        self.endpoint = endpoint
        self.pair = QueuePair(device, endpoint)
        self._memory = memory
        self._outgoing = Outgoing()
        self._incoming = Incoming()
        self._there: dict[int, tuple[int, int, int]] = {}  # by key: remote key of the verbs, address, length
        self._is_probing = False
        self._answered_s = 0.0  # the last acknowledgement, or what was posted when none was due

    @property
    def idle(self) -> bool:
        """Everything posted has arrived at the peer."""
        return self._outgoing.idle

    @property
    def arrived(self) -> int:
        """How many of the peer's pieces are here."""
        return self._incoming.arrived

    def announce(self, registration: Registration) -> None:
        """Announce memory to the peer before any message can name it."""
        mr = registration.mrs.get(self.endpoint.device)
        region = REGION.pack(
            registration.key, mr.rkey if mr else 0, registration.address, registration.length
        )
        self.enqueue(Message(Kind.REGION, region))

    def enqueue(self, work: Write | Message) -> None:
        self._outgoing.waiting.append(work)

    def abandon(self) -> None:
        """Drop the writes that have not been posted."""
        self._outgoing.abandon()

    def start(self) -> None:
        """Post what may be posted. Raises ConnectionLost."""
        if self._incoming.owes_credit() and CREDIT not in self._outgoing.waiting:
            self._outgoing.waiting.appendleft(CREDIT)
        if not self._awaits_answer:
            self._answered_s = monotonic()
        postings = self._outgoing.take()
        if not postings:
            return
        try:
            self.pair.post([self._request(posting) for posting in postings])
        except PyverbsError as error:
            raise ConnectionLost(f"nothing can be posted on {self.endpoint}: {error}") from error

    def look(self, limit_s: float) -> None:
        """Raise ConnectionLost if no acknowledgement has come for `limit_s`; see that one is due.

        `limit_s` is longer than all retries of the device. It should have failed what was posted by then, but
        rxe of Linux 6.1 does not always: with a retry count of 7 it repeats without end, and a request that it
        could not send is reported only after those before it, for whose acknowledgement it no longer waits.
        """
        if not self._awaits_answer:
            self._probe()
            return
        waited_s = monotonic() - self._answered_s
        if waited_s >= limit_s:
            raise ConnectionLost(
                f"no acknowledgement for {waited_s:.1f} s, longer than all retries take, and no error of the "
                f"device; {self.endpoint} is {port_state(self.endpoint)} here: check that its process lives, the "
                "cable, and `rdma link` at both ends"
            )

    def take(self, completion: Any) -> list[Completion]:
        """What a work completion (ibv_wc) means. Raises ConnectionLost."""
        if completion.status != SUCCESS:
            raise ConnectionLost(self._explain(completion))
        if completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM:
            self._post_again(completion.wr_id, paid=True)
            return [Completion(Event.WRITTEN, self.index, completion.imm_data)]
        if completion.opcode == IBV_WC_RECV:
            raw = self.pair.received(completion.wr_id, completion.byte_len)
            kind, posted_again = HEADER.unpack_from(raw)
            self._post_again(completion.wr_id, paid=kind != Kind.CREDIT)
            self._outgoing.grant(posted_again)
            return self._listen(kind, raw[HEADER.size :])
        self._answered_s = monotonic()
        if completion.wr_id == PROBE:
            self._is_probing = False
            return []
        return self._sent(completion.wr_id + 1)

    def end(self, arrived: int) -> list[Completion]:
        """Close the queue pair. `arrived` pieces had reached the peer, whatever it could still acknowledge."""
        self.pair.close()
        self._outgoing.waiting.clear()
        return self._sent(arrived)

    @property
    def _awaits_answer(self) -> bool:
        return self._is_probing or self._outgoing.is_under_way

    def _probe(self) -> None:
        """A sender without credit has nothing under way, and would never learn of a dead path."""
        self._answered_s, self._is_probing = monotonic(), True
        try:
            self.pair.probe()
        except PyverbsError as error:
            raise ConnectionLost(f"nothing can be posted on {self.endpoint}: {error}") from error

    def _request(self, posting: Posting) -> Request:
        work = posting.work
        if isinstance(work, Message):
            header = HEADER.pack(work.kind, self._incoming.take_credit())
            return self.pair.message(posting.number, posting.signalled, header + work.payload)
        here = self._memory[work.key]
        remote_key, address, length = self._there.get(work.remote_key, (0, 0, 0))
        if work.remote_offset + work.length > length:
            raise ConnectionLost(
                f"it has announced {length} bytes as region {work.remote_key}, and "
                f"{work.length} bytes at {work.remote_offset} are to be written there"
            )
        return Request(
            posting.number,
            posting.signalled,
            here.address + work.offset,
            work.length,
            here.mrs[self.endpoint.device].lkey,
            work.immediate,
            address + work.remote_offset,
            remote_key,
        )

    def _listen(self, kind: int, payload: bytes) -> list[Completion]:
        if kind == Kind.MESSAGE:
            return [Completion(Event.MESSAGE, self.index, 0, payload)]
        if kind == Kind.REGION:
            key, remote_key, address, length = REGION.unpack(payload)
            self._there[key] = remote_key, address, length
        return []

    def _post_again(self, slot: int, paid: bool) -> None:
        self._incoming.took(paid)
        try:
            self.pair.post_receive(slot)
        except PyverbsError as error:
            raise ConnectionLost(f"no receive can be posted on {self.endpoint}: {error}") from error

    def _sent(self, count: int) -> list[Completion]:
        return [Completion(Event.SENT, self.index, immediate) for immediate in self._outgoing.finished(count)]

    def _explain(self, completion: Any) -> str:
        state = port_state(self.endpoint)
        why = explain(completion.status, completion.vendor_err, str(self.endpoint), state)
        return why_lost(self.endpoint) or why
