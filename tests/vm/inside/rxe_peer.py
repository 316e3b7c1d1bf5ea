# SPDX-License-Identifier: Apache-2.0
"""A queue pair of the kernel's rdma_rxe, on one end of a cable whose other end is a raw socket of ours."""

from __future__ import annotations

import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.stack.link import IPS, MACS, NEVER, Side, configuration

THEIRS, OURS = "interop0", "interop1"
DEVICE = "rxe_interop"
MTU = 4200  # of the cable: InfiniBand's 4096 and all headers
MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
ETHERTYPE_IPV4 = 0x0800
PEER_PSN, OUR_PSN = 0xFFFFF0, 0xFFFFD0  # both wrap around soon


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@contextmanager
def cable() -> Iterator[None]:
    """A veth pair, with an rxe device at the one end, and nothing of the kernel's at the other."""
    ours, theirs = (":".join(f"{byte:02x}" for byte in mac) for mac in MACS)
    # Born with their MACs: to those of chance udev gives others, at a moment of its own.
    near, far = ((name, "address", mac, "mtu", str(MTU)) for name, mac in ((THEIRS, theirs), (OURS, ours)))
    run("ip", "link", "add", *near, "type", "veth", "peer", "name", *far)
    try:
        run("ip", "addr", "add", f"{IPv4Address(IPS[1])}/24", "dev", THEIRS)
        for name in (THEIRS, OURS):
            run("ip", "link", "set", name, "up")
        run("ip", "neigh", "add", str(IPv4Address(IPS[0])), "lladdr", ours, "dev", THEIRS, "nud", "permanent")
        run("rdma", "link", "add", DEVICE, "type", "rxe", "netdev", THEIRS)
        yield
    finally:
        subprocess.run(["rdma", "link", "del", DEVICE], capture_output=True)
        subprocess.run(["ip", "link", "del", THEIRS], capture_output=True)


class Memory:
    """Memory that is registered with the device, to be read and written as a numpy array."""

    def __init__(self, domain: Any, size: int) -> None:
        from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE
        from pyverbs.mr import MR

        self.array = np.zeros(size, np.uint8)
        self.address = int(self.array.ctypes.data)
        self.region = MR(domain, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, self.address)

    def piece(self, offset: int, size: int) -> Any:
        from pyverbs.wr import SGE

        return SGE(self.address + offset, size, self.region.lkey)


class RxePair:
    """An RC queue pair of the device, by pyverbs."""

    def __init__(self, memory_bytes: int) -> None:
        from pyverbs.cq import CQ
        from pyverbs.device import Context
        from pyverbs.enums import IBV_QPT_RC
        from pyverbs.pd import PD
        from pyverbs.qp import QP, QPCap, QPInitAttr

        self._context = Context(name=DEVICE)
        self._domain = PD(self._context)
        self._queue = CQ(self._context, 256)
        capacity = QPCap(max_send_wr=64, max_recv_wr=64, max_send_sge=1, max_recv_sge=1)
        attributes = QPInitAttr(
            qp_type=IBV_QPT_RC, scq=self._queue, rcq=self._queue, cap=capacity, sq_sig_all=1
        )
        self._pair = QP(self._domain, attributes)
        self.memory = Memory(self._domain, memory_bytes)
        self.completions: list[Any] = []

    @property
    def qpn(self) -> int:
        return int(self._pair.qp_num)

    def connect(self, qpn: int, mtu: int) -> None:
        from pyverbs.addr import GID, AHAttr, GlobalRoute
        from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE
        from pyverbs.qp import QPAttr

        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
        attributes.path_mtu = MTU_CODES[mtu]
        attributes.dest_qp_num = qpn
        attributes.rq_psn, attributes.sq_psn = OUR_PSN, PEER_PSN
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.min_rnr_timer = 14  # 1.28 ms
        attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 16, 7, 7
        to = GID(IPv6Address(f"::ffff:{IPv4Address(IPS[0])}").exploded)
        route = GlobalRoute(dgid=to, sgid_index=_gid_index(), hop_limit=64)
        attributes.ah_attr = AHAttr(is_global=1, port_num=1, gr=route)
        self._pair.to_init(attributes)
        self._pair.to_rts(attributes)

    def receive(self, identity: int, offset: int, size: int) -> None:
        from pyverbs.wr import RecvWR

        self._pair.post_recv(RecvWR(wr_id=identity, num_sge=1, sg=[self.memory.piece(offset, size)]))

    def post(
        self,
        identity: int,
        offset: int,
        size: int,
        remote: tuple[int, int] | None = None,
        immediate: int | None = None,
    ) -> None:
        """A SEND, or a WRITE to (address, key), with an immediate or without."""
        from pyverbs import enums
        from pyverbs.wr import SendWR

        kind = "IBV_WR_SEND" if remote is None else "IBV_WR_RDMA_WRITE"
        kind += "" if immediate is None else "_WITH_IMM"
        work = SendWR(
            wr_id=identity,
            opcode=getattr(enums, kind),
            num_sge=1,
            imm_data=socket.htonl(immediate or 0),  # which pyverbs hands on as it is
            sg=[self.memory.piece(offset, size)],
            send_flags=enums.IBV_SEND_SIGNALED,
        )
        if remote is not None:
            work.set_wr_rdma(remote[1], remote[0])
        self._pair.post_send(work)

    def poll(self) -> None:
        self.completions += self._queue.poll(64)[1]

    def close(self) -> None:
        for resource in (self._pair, self.memory.region, self._queue, self._domain, self._context):
            resource.close()


def immediate_of(completion: Any) -> int:
    return socket.ntohl(completion.imm_data)


def _gid_index() -> int:
    """Of the GID that is the IPv4 address; the kernel fills the table after the device is there."""
    expected = IPv6Address(f"::ffff:{IPv4Address(IPS[1])}").exploded
    folder = Path(f"/sys/class/infiniband/{DEVICE}/ports/1/gids")
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for file in folder.iterdir():
            if file.read_text().strip() == expected:
                return int(file.name)
        time.sleep(0.05)
    raise AssertionError(f"{DEVICE} has no GID {expected}")


class Joined:
    """Our endpoint and the kernel's, and the raw socket between them, which drops the selected packets."""

    def __init__(self, core: Any, mtu: int, loss: float, memory_bytes: int, **options: Any) -> None:
        self._random = Random(mtu)
        self._loss = loss
        self.frames: list[bytes] = []
        self.lost = 0
        self.ours = Side(core, time.monotonic_ns(), 64)
        self.theirs = RxePair(memory_bytes)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_IPV4))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
        self._socket.bind((OURS, ETHERTYPE_IPV4))
        self._socket.setblocking(False)
        try:
            self._connect(core, mtu, options)
        except BaseException:
            self.close()  # what is open keeps the device from going
            raise

    def _connect(self, core: Any, mtu: int, options: dict[str, Any]) -> None:
        self.theirs.connect(self.ours.qpn, mtu)
        options = {"path_mtu": mtu, "timeout_ns": 300_000_000, **options}
        config = configuration(core, (self.ours, self.theirs), 0, (OUR_PSN, PEER_PSN), options)
        assert core.lib.rc_connect(self.ours.pair, config, time.monotonic_ns())

    def run(self, until: Callable[[], bool], limit_s: float = 120.0) -> bool:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            self._receive()
            self._transmit()
            self.ours.poll()
            self.theirs.poll()
            if until():
                return True
            wait_ns = min(self.ours.deadline() - time.monotonic_ns(), 1_000_000)
            if wait_ns > 0:
                select.select([self._socket], [], [], wait_ns / 1e9)
        return False

    def both(self, ours: int, theirs: int) -> bool:
        """Whether so many completions come on the two sides."""
        return self.run(lambda: len(self.ours.completions) >= ours and len(self.theirs.completions) >= theirs)

    def close(self) -> None:
        self._socket.close()
        self.theirs.close()
        self.ours.close()

    def _receive(self) -> None:
        for _ in range(256):
            try:
                frame = self._socket.recv(MTU + 100)
            except BlockingIOError:
                return
            if frame[23] == socket.IPPROTO_UDP and not self._is_lost(frame):
                self.ours.take(frame, time.monotonic_ns())

    def _transmit(self) -> None:
        while self.ours.deadline() != NEVER and (frame := self.ours.transmit(time.monotonic_ns())):
            if not self._is_lost(frame):
                select.select([], [self._socket], [])  # its buffer is full while the kernel takes frames in
                self._socket.send(frame)

    def _is_lost(self, frame: bytes) -> bool:
        self.frames.append(frame)
        lost = self._random.random() < self._loss
        self.lost += lost
        return lost
