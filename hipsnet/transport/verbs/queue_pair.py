# SPDX-License-Identifier: Apache-2.0
"""One reliable connected queue pair: its set-up from RESET to RTS, and its destruction."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

import numpy as np
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_QPT_RC
from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR

from hipsnet.errors import TransportError
from hipsnet.transport.verbs.device import Device
from hipsnet.transport.verbs.devices import Endpoint
from hipsnet.transport.verbs.layout import HEADER_BYTES, PROBES, RECEIVES, RING_BYTES, SENDS, SLOT_BYTES
from hipsnet.transport.verbs.parameters import Parameters
from hipsnet.transport.verbs.qp_attributes import QpAttributes

INLINE_BYTES = 128  # what control messages need
HOP_LIMIT = 64
MIN_RNR_TIMER = 12  # 0.64 ms (InfiniBand specification, table 45)


class QueuePair:
    """An RC queue pair and its memory for messages (layout.py), in which all receives are posted."""

    def __init__(self, device: Device, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._mtu = device.active_mtu(endpoint.port)
        memory = np.zeros(RECEIVES * SLOT_BYTES + RING_BYTES + SENDS * HEADER_BYTES, np.uint8)
        self.memory = memory
        self.address = int(memory.ctypes.data)
        self._open: list[Any] = []
        self._receives: list[Any] = []
        try:
            registration = self._own(MR(device.domain, memory.nbytes, IBV_ACCESS_LOCAL_WRITE, self.address))
            self.local_key = int(registration.lkey)
            self.pair, self.inline_bytes = self._create(device)
            self._prepare_receives()
            psn = secrets.randbits(24)
            self.mine = Parameters(self.pair.qp_num, psn, endpoint.gid, self._mtu, device.landing)
            self.pair.to_init(self._initial())
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
        self.landing = theirs.landing
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
            self.pair.to_rts(attributes)
        except PyverbsError as error:
            raise TransportError(
                f"{self._endpoint} cannot reach {theirs.gid.ipv4_mapped}: {error}; does it answer ARP?"
            ) from error

    def post_receive(self, slot: int) -> None:
        """Post the receive of a slot. Raises PyverbsError."""
        self.pair.post_recv(self._receives[slot])

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
        """The pair, and how many bytes it sends inline: 0 for a device that does not support it."""
        queue = device.completions
        for inline in (INLINE_BYTES, 0):
            capacity = QPCap(
                max_send_wr=SENDS + PROBES,
                max_recv_wr=RECEIVES,
                max_send_sge=1,
                max_recv_sge=1,
                max_inline_data=inline,
            )
            attributes = QPInitAttr(qp_type=IBV_QPT_RC, scq=queue, rcq=queue, cap=capacity, sq_sig_all=0)
            try:
                return self._own(QP(device.domain, attributes)), inline
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
            place = SGE(self.address + slot * SLOT_BYTES, SLOT_BYTES, self.local_key)
            self._receives.append(RecvWR(wr_id=slot, num_sge=1, sg=[place]))
