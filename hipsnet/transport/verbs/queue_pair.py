# SPDX-License-Identifier: Apache-2.0
"""One reliable connected queue pair: made, brought to life, posted to, and taken away."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_REMOTE_WRITE,
    IBV_QPT_RC,
    IBV_SEND_INLINE,
    IBV_SEND_SIGNALED,
    IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_SEND,
)
from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from hipsnet.errors import TransportError
from hipsnet.transport.interface import MESSAGE_LIMIT
from hipsnet.transport.verbs.device import Device
from hipsnet.transport.verbs.devices import Endpoint
from hipsnet.transport.verbs.flow import PROBES, RECEIVES, SENDS
from hipsnet.transport.verbs.parameters import Parameters
from hipsnet.transport.verbs.qp_attributes import QpAttributes

HEADER_BYTES = 16
SLOT_BYTES = -(-(MESSAGE_LIMIT + HEADER_BYTES) // 64) * 64
INLINE_BYTES = 128  # what the executor's messages need
HOP_LIMIT = 64
PROBE = 1 << 63  # the work request id of a probe; numbers of others stay far below
MIN_RNR_TIMER = 12  # 0.64 ms (InfiniBand specification, table 45)


class Request(NamedTuple):
    """A work request: a message out of the send slot of its number, or a write if it has a `remote_key`."""

    number: int
    signalled: bool
    address: int
    length: int
    local_key: int
    immediate: int = 0
    remote_address: int = 0
    remote_key: int | None = None


class QueuePair:
    """An RC queue pair with its message slots: `RECEIVES` to receive into, `SENDS` to send from."""

    def __init__(self, device: Device, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._mtu = device.active_mtu(endpoint.port)
        self._slots = np.zeros((RECEIVES + SENDS, SLOT_BYTES), np.uint8)
        self._base = int(self._slots.ctypes.data)
        self._open: list[Any] = []
        self._receives: list[Any] = []
        self._landing = (0, 0)  # the peer's
        self._place = self._own(SGE(0, 0, 0))  # of whatever is described: a work request keeps a copy
        try:
            access = IBV_ACCESS_LOCAL_WRITE
            self._memory = self._own(MR(device.domain, self._slots.nbytes, access, self._base))
            self._pair, self._inline_bytes = self._create(device)
            self._prepare_receives()
            psn = secrets.randbits(24)
            self.mine = Parameters(self._pair.qp_num, psn, endpoint.gid, self._mtu, device.landing)
            self._pair.to_init(self._initial())
            for slot in range(RECEIVES):
                self.post_receive(slot)
        except PyverbsError as error:
            self.close()
            raise TransportError(
                f"no queue pair on {endpoint}: {error}; `rdma resource show` lists those in use, "
                "`ulimit -l` how much memory may be registered"
            ) from error

    @property
    def number(self) -> int:
        return self.mine.number

    def connect(self, theirs: Parameters, qp_attributes: QpAttributes) -> None:
        """Ready to receive and to send, with the smaller of both ends' MTUs."""
        self._landing = theirs.landing
        attributes = self._initial()
        attributes.path_mtu = min(self._mtu, theirs.mtu)
        attributes.dest_qp_num = theirs.number
        attributes.rq_psn, attributes.sq_psn = theirs.psn, self.mine.psn
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.min_rnr_timer = MIN_RNR_TIMER
        attributes.timeout, attributes.retry_cnt = qp_attributes.ack_timeout, qp_attributes.retries
        attributes.rnr_retry = qp_attributes.rnr_retries
        route = GlobalRoute(
            dgid=GID(theirs.gid.exploded),
            sgid_index=self._endpoint.gid_index,
            hop_limit=HOP_LIMIT,
            traffic_class=qp_attributes.dscp << 2,
        )
        attributes.ah_attr = AHAttr(
            sl=qp_attributes.priority, is_global=1, port_num=self._endpoint.port, gr=route
        )
        try:
            self._pair.to_rts(attributes)
        except PyverbsError as error:
            raise TransportError(
                f"{self._endpoint} cannot reach {theirs.gid.ipv4_mapped}: {error}; does it answer ARP?"
            ) from error

    def received(self, slot: int, length: int) -> bytes:
        """The message that has come into a receive slot."""
        return self._slots[slot, :length].tobytes()

    def post_receive(self, slot: int) -> None:
        self._pair.post_recv(self._receives[slot])

    def message(self, number: int, signalled: bool, payload: bytes) -> Request:
        """The request that sends these bytes; at most `SENDS` may be under way."""
        slot = RECEIVES + number % SENDS
        self._slots[slot, : len(payload)] = np.frombuffer(payload, np.uint8)
        return Request(number, signalled, self._base + slot * SLOT_BYTES, len(payload), self._memory.lkey)

    def post(self, requests: Sequence[Request]) -> None:
        """Post all with one call. Raises PyverbsError."""
        chain: list[Any] = []
        for request in reversed(requests):
            chain.append(self._work_request(request, chain[-1] if chain else None))
        try:
            self._pair.post_send(chain[-1])
        finally:
            for piece in chain:
                piece.close()  # pyverbs does not free them

    def probe(self) -> None:
        """Post a write of no bytes: acknowledged while the path lives, and unseen by the peer's program.

        It uses no receive of the peer. Raises PyverbsError.
        """
        work = SendWR(
            wr_id=PROBE,
            opcode=IBV_WR_RDMA_WRITE,
            num_sge=1,  # pyverbs refuses none
            sg=[self._at(self._base, 0, self._memory.lkey)],
            send_flags=IBV_SEND_SIGNALED,
        )
        try:
            work.set_wr_rdma(*self._landing)
            self._pair.post_send(work)
        finally:
            work.close()

    def close(self) -> None:
        """Nothing reads or writes our memory any more when this returns."""
        while self._open:
            with suppress(PyverbsError):  # a device that has gone took it along
                self._open.pop().close()
        while self._receives:
            self._receives.pop().close()

    def _own(self, resource: Any) -> Any:
        self._open.append(resource)
        return resource

    def _create(self, device: Device) -> tuple[QP, int]:
        """The pair, and how many bytes may be sent inline (rxe and most cards can; none must)."""
        queue = device.completions
        for inline in (INLINE_BYTES, 0):
            room = QPCap(
                max_send_wr=SENDS + PROBES,
                max_recv_wr=RECEIVES,
                max_send_sge=1,
                max_recv_sge=1,
                max_inline_data=inline,
            )
            wanted = QPInitAttr(qp_type=IBV_QPT_RC, scq=queue, rcq=queue, cap=room, sq_sig_all=0)
            try:
                return self._own(QP(device.domain, wanted)), inline
            except PyverbsError:
                if not inline:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _initial(self) -> QPAttr:
        attributes = QPAttr(port_num=self._endpoint.port)
        attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
        return attributes

    def _prepare_receives(self) -> None:
        for slot in range(RECEIVES):
            place = self._at(self._base + slot * SLOT_BYTES, SLOT_BYTES, self._memory.lkey)
            self._receives.append(RecvWR(wr_id=slot, num_sge=1, sg=[place]))

    def _at(self, address: int, length: int, key: int) -> SGE:
        """The place in memory, until the next call: pyverbs takes microseconds to make an object."""
        self._place.addr, self._place.length, self._place.lkey = address, length, key
        return self._place

    def _work_request(self, request: Request, following: SendWR | None) -> SendWR:
        flags = IBV_SEND_SIGNALED if request.signalled else 0
        is_write = request.remote_key is not None
        if not is_write and request.length <= self._inline_bytes:
            flags |= IBV_SEND_INLINE
        work = SendWR(
            wr_id=request.number,
            opcode=IBV_WR_RDMA_WRITE_WITH_IMM if is_write else IBV_WR_SEND,
            num_sge=1,
            imm_data=request.immediate,
            sg=[self._at(request.address, request.length, request.local_key)],
            send_flags=flags,
            next_wr=following,
        )
        if is_write:
            work.set_wr_rdma(request.remote_key, request.remote_address)
        return work
