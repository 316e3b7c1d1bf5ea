# SPDX-License-Identifier: Apache-2.0
"""The ways to post and poll (struct verbs_posting): libibverbs from C, or pyverbs by callbacks.

pyverbs creates the queue pairs. libibverbs can use them where a compiler and its headers are installed, and where
their pointers are found in pyverbs' objects (verbs_ibverbs.h). A call through pyverbs takes the interpreter's lock
and several times the CPU time; `tools/bench verbs` measures both.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import socket
import sys
from _thread import interrupt_main
from threading import Timer
from typing import Any, Protocol

import pyverbs
from pyverbs.enums import (
    IBV_SEND_INLINE,
    IBV_SEND_SIGNALED,
    IBV_WC_RECV,
    IBV_WC_RECV_RDMA_WITH_IMM,
    IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_SEND,
)
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.wr import SGE, SendWR

from hipsnet.engine.wire.verbs_library import libibverbs
from hipsnet.errors import CapabilityError
from hipsnet.stack.roce.core import Core
from hipsnet.transport.verbs.layout import SLOT_BYTES
from hipsnet.transport.verbs.transport import VerbsTransport

AGAIN_S = 0.05

log = logging.getLogger("hipsnet")


class Posting(Protocol):
    """A way to post and poll on the queue pairs of a transport."""

    @property
    def struct(self) -> Any:
        """`struct verbs_posting *`."""

    def close(self) -> None:
        """Free memory; the queue pairs are closed already."""


def fastest(core: Core, transport: VerbsTransport) -> Posting:
    """The fastest way that works on this machine."""
    try:
        return LibibverbsPosting(core, transport)
    except CapabilityError as error:
        log.warning("verbs: every write takes a call of Python: %s", error)
        return PyverbsPosting(core, transport)


class LibibverbsPosting:
    """libibverbs, called from C."""

    def __init__(self, core: Core, transport: VerbsTransport) -> None:
        """Raises CapabilityError if the library cannot be compiled, or if a pointer is not found."""
        self._lib = libibverbs(core)
        queues = [self._queue(core, device) for device in transport.devices]
        pairs = [
            self._pair(core, connection.pair.pair, queues[connection.device])
            for connection in transport.connections
        ]
        self._handle = self._lib.verbs_ibverbs_open(
            core.ffi.new("u64[]", queues or 1), len(queues), core.ffi.new("u64[]", pairs or 1), len(pairs)
        )
        if self._handle == core.ffi.NULL:
            raise CapabilityError("no memory is left for the queue pairs")
        for index, connection in enumerate(transport.connections):
            pair = connection.pair
            self._lib.verbs_ibverbs_place(self._handle, index, pair.address, SLOT_BYTES, pair.local_key)
        self.struct = core.ffi.new("struct verbs_posting *")
        self._lib.verbs_ibverbs_posting(self._handle, self.struct)

    def close(self) -> None:
        self._lib.verbs_ibverbs_close(self._handle)

    def _queue(self, core: Core, device: Any) -> int:
        words = _words(device.completions)
        found = self._lib.verbs_ibverbs_find_queue(
            core.ffi.new("u64[]", words), len(words), device.descriptor
        )
        return _found(int(found), "completion queue")

    def _pair(self, core: Core, pair: Any, queue: int) -> int:
        words = _words(pair)
        found = self._lib.verbs_ibverbs_find_pair(
            core.ffi.new("u64[]", words), len(words), pair.qp_num, queue
        )
        return _found(int(found), "queue pair")


def _words(found: Any) -> list[int]:
    """The memory of an object of pyverbs."""
    size = type(found).__basicsize__ // 8
    return list((ctypes.c_uint64 * size).from_address(id(found)))


def _found(pointer: int, what: str) -> int:
    if not pointer:
        raise CapabilityError(
            f"the {what} is not found in the objects of this pyverbs ({pyverbs.__file__}); "
            "please report the version of rdma-core"
        )
    return pointer


class PyverbsPosting:
    """pyverbs, called back from C once for each batch."""

    def __init__(self, core: Core, transport: VerbsTransport) -> None:
        self._ffi, self._lib = core
        self._pairs = [connection.pair for connection in transport.connections]
        self._devices = list(transport.devices)
        self._place = SGE(0, 0, 0)  # a work request keeps a copy
        self._opcodes = {
            self._lib.VERBS_SEND: IBV_WR_SEND,
            self._lib.VERBS_WRITE: IBV_WR_RDMA_WRITE_WITH_IMM,
            self._lib.VERBS_PROBE: IBV_WR_RDMA_WRITE,
        }
        self.struct = self._ffi.new("struct verbs_posting *")
        self._callbacks = {
            "post_send": ("u32, const struct verbs_request *, u32", self._post_send),
            "post_receives": ("u32, const u32 *, u32", self._post_receives),
            "poll": ("u32, struct verbs_completion *, u32, u32 *", self._poll),
            "arm": ("u32", self._arm),
            "take_event": ("u32", self._take_event),
        }
        self._kept = []
        for name, (arguments, function) in self._callbacks.items():
            made = callback(core, f"int(void *, {arguments})", _errno_of(function), errno.EIO)
            setattr(self.struct, name, made)
            self._kept.append(made)

    def close(self) -> None:
        self._place.close()

    def _post_send(self, _: Any, connection: int, requests: Any, count: int) -> None:
        chain: list[Any] = []
        try:
            for index in reversed(range(count)):
                chain.append(self._work_request(requests[index], chain[-1] if chain else None))
            self._pairs[connection].pair.post_send(chain[-1])
        finally:
            for piece in chain:
                piece.close()  # pyverbs does not free them

    def _work_request(self, request: Any, following: SendWR | None) -> SendWR:
        self._place.addr, self._place.length = request.address, request.bytes
        self._place.lkey = request.local_key
        flags = IBV_SEND_SIGNALED if request.is_signalled else 0
        work = SendWR(
            wr_id=request.number,
            opcode=self._opcodes[request.kind],
            num_sge=1,  # pyverbs refuses none
            imm_data=socket.htonl(request.immediate),
            sg=[self._place],
            send_flags=flags | (IBV_SEND_INLINE if request.is_inline else 0),
            next_wr=following,
        )
        if request.kind != self._lib.VERBS_SEND:
            work.set_wr_rdma(request.remote_key, request.remote_address)
        return work

    def _post_receives(self, _: Any, connection: int, slots: Any, count: int) -> None:
        pair = self._pairs[connection]
        for slot in self._ffi.unpack(slots, count):
            pair.post_receive(slot)

    def _poll(self, _: Any, device: int, completions: Any, most: int, count: Any) -> None:
        found = self._devices[device].completions.poll(most)[1]
        for to, completion in zip(completions[0 : len(found)], found, strict=True):
            to.number, to.queue_pair = completion.wr_id, completion.qp_num
            to.status, to.vendor_error = completion.status, completion.vendor_err
            to.bytes, to.immediate = completion.byte_len, socket.ntohl(completion.imm_data)
            to.outcome = {
                IBV_WC_RECV_RDMA_WITH_IMM: self._lib.VERBS_WRITTEN,
                IBV_WC_RECV: self._lib.VERBS_RECEIVED,
            }.get(completion.opcode, self._lib.VERBS_SENT)
        count[0] = len(found)

    def _arm(self, _: Any, device: int) -> None:
        self._devices[device].completions.req_notify()

    def _take_event(self, _: Any, device: int) -> None:
        found = self._devices[device]
        found.channel.get_cq_event(found.completions)
        found.completions.ack_events(1)


def callback(core: Core, signature: str, function: Any, error: int | None = None) -> Any:
    """A function for C. After an exception it returns `error`; a KeyboardInterrupt is raised again soon after."""

    def failed(kind: type[BaseException], value: BaseException, trace: Any) -> None:
        if issubclass(kind, KeyboardInterrupt):
            Timer(AGAIN_S, interrupt_main).start()  # here it would be ignored
        else:
            sys.excepthook(kind, value, trace)

    return core.ffi.callback(signature, function, error=error, onerror=failed)


def _errno_of(function: Any) -> Any:
    """A callback that returns the errno of `function`."""

    def call(*arguments: Any) -> int:
        try:
            function(*arguments)
        except PyverbsError as error:
            return int(getattr(error, "error_code", 0) or errno.EIO)
        return 0

    return call
