"""The topology file's typed, versioned schema."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from hipsnet.topology import quantities


class Section(BaseModel):
    """A mapping of the file: no unknown keys, no silent conversions, frozen once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _checked(parse: Any) -> AfterValidator:
    """Keep the text as it was written, once `parse` has understood it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


Rate = Annotated[
    str,
    Field(pattern=quantities.RATE_PATTERN, examples=["500Mbit/s", "10Gbit/s", "unlimited"]),
    _checked(quantities.parse_rate),
]
Delay = Annotated[
    str,
    Field(pattern=quantities.DELAY_PATTERN, examples=["0us", "50us", "1.5ms"]),
    _checked(quantities.parse_delay),
]
Size = Annotated[
    str,
    Field(pattern=quantities.SIZE_PATTERN, examples=["9216B", "64KiB", "1.5MiB"]),
    _checked(quantities.parse_size),
]
Priority = Annotated[int, Field(ge=0, le=7)]


class BCube(Section):
    """BCube(n, levels): n^levels servers with one port per level, n-port switches in each level."""

    kind: Literal["bcube"]
    n: int = Field(ge=2, le=1024, description="ports of every switch = servers in every group")
    levels: int = Field(ge=1, le=16, description="levels of switches = ports of every server")


class Torus(Section):
    """A torus of any number of dimensions: servers on rings, no switches."""

    kind: Literal["torus"]
    sides: tuple[Annotated[int, Field(ge=2, le=1024)], ...] = Field(
        min_length=1,
        max_length=15,
        description="servers along each dimension, dimension 0 first; along a side of 2 there is one cable",
    )


class FatTree(Section):
    """A three-layer Fat-Tree of k-port switches that route."""

    kind: Literal["fattree"]
    servers: int = Field(ge=2, le=8192, description="number of servers")
    nics: int = Field(default=1, ge=1, le=16, description="ports of every server")
    k: Annotated[int, Field(ge=2, le=32, multiple_of=2)] | None = Field(
        default=None, description="ports of every switch; the smallest that fits unless given"
    )

    @property
    def ports_per_switch(self) -> int:
        """The given k, or the smallest even one whose k^3/4 host slots hold every NIC."""
        if self.k is not None:
            return self.k
        return next(k for k in range(2, 1 << 16, 2) if k**3 // 4 >= self.servers * self.nics)


class Cable(Section):
    """What every cable of the fabric is like."""

    rate: Rate = Field(default="500Mbit/s", description="rate of a port in each direction")
    mtu: int = Field(default=9000, ge=1280, le=9000, description="largest IP packet in bytes")
    delay: Delay = Field(default="0us", description="one-way delay that is added to a cable")

    @property
    def rate_bps(self) -> int | None:
        """Rate in bit/s; None is unlimited."""
        return quantities.parse_rate(self.rate)

    @property
    def delay_us(self) -> int:
        """One-way delay in microseconds."""
        return quantities.parse_delay(self.delay)


class Addresses(Section):
    """The base prefixes of what the fabric numbers."""

    ports: IPv4Network = Field(
        default=IPv4Network("10.0.0.0/8"),
        description="port addresses: one /16 per level (dimension, layer)",
        examples=["10.0.0.0/8", "172.16.0.0/12"],
    )
    identity: IPv4Network = Field(
        default=IPv4Network("10.255.0.0/16"),
        description="one /32 per server, on its loopback",
        examples=["10.255.0.0/16", "192.168.0.0/16"],
    )


class Ecn(Section):
    """Where switch queues begin to mark packets."""

    enabled: bool = True
    kmin: Size = Field(default="100KiB", description="queue length at which marking begins")
    kmax: Size = Field(default="400KiB", description="queue length from which every packet is marked")
    pmax: float = Field(default=0.2, gt=0, le=1, description="share of packets marked just below kmax")


class Dcqcn(Section):
    """A congestion control parameter of the card's driver."""

    name: str = Field(
        pattern=r"^(np|rp)_[a-z0-9_]{1,40}$",
        description="its name in debugfs, mlx5/*/cc_params",
        examples=["rp_ai_rate", "np_cnp_dscp"],
    )
    value: int = Field(ge=0, le=2**32 - 1)


class Roce(Section):
    """What sends RoCE traffic, and how it is marked."""

    device: Literal["nic", "rxe"] = Field(
        default="nic",
        description="RDMA device of a server port: the NIC's own, or one in software that is added to it",
    )
    priority: Priority = Field(default=3, description="802.1p priority of RoCE traffic")
    dscp: int = Field(default=26, ge=0, le=63, description="DSCP of RoCE packets")
    ecn: Ecn = Ecn()
    mode: Literal["v1", "v2"] = Field(
        default="v2", description="on hosts: RoCE version that rdma_cm connects with"
    )
    dcqcn: tuple[Dcqcn, ...] = Field(
        default=(), max_length=64, description="on hosts: congestion control parameters of mlx5"
    )
    required: bool = Field(
        default=False, description="on hosts: a NIC that lacks what is asked for is an error, not a remark"
    )


class Watchdog(Section):
    """When a port that is paused for ever is cut loose."""

    detect_ms: int = Field(default=200, ge=100, le=5000, description="paused without a packet sent, ms")
    restore_ms: int = Field(default=200, ge=100, le=60000, description="quiet time before it is restored, ms")
    action: Literal["drop", "forward", "alert"] = "drop"


class Pfc(Section):
    """Priority flow control (IEEE 802.1Qbb): which priorities are lossless, and their thresholds."""

    priorities: tuple[Priority, ...] = Field(default=(3,), min_length=1, max_length=8)
    routes: Literal["neighbours", "fixed", "disjoint"] = Field(
        default="neighbours",
        description="ways of lossless traffic: one hop only (HiPS itself), the identity routes, every path",
    )
    cable_m: float = Field(
        default=3, ge=0, le=100_000, description="cable length in metres, for the headroom"
    )
    xoff: Size | None = Field(default=None, description="queue length that sends XOFF; derived unless given")
    xon: Size | None = Field(default=None, description="queue length that sends XON; derived unless given")
    headroom: Size | None = Field(default=None, description="room above XOFF; derived unless given")
    phy: Literal["fibre", "twinax", "base-t"] = Field(
        default="fibre", description="what the cable is, for the headroom; a base-t PHY takes its time"
    )
    response: Delay | None = Field(
        default=None,
        description="how long a peer may go on after PFC; unless given IEEE 802.3 31B.3.7's, in the lab 5ms",
    )
    cell: Size = Field(default="1B", description="piece in which the buffer is given out", examples=["96B"])
    buffer: Size | None = Field(
        default=None, description="receive buffer of a port; if given, headroom and XOFF have to fit into it"
    )
    delay: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="delay that a host's NIC is told with PFC: bit times; mlx5 takes metres of cable",
    )
    required: bool = Field(
        default=False, description="on hosts: a NIC that lacks what is asked for is an error, not a remark"
    )
    alpha: float = Field(
        default=1, gt=0, le=128, description="share of the free shared buffer that one queue may take"
    )
    watchdog: Watchdog | None = Field(default=None, description="left out: there is none")

    @property
    def response_us(self) -> int | None:
        """The given response time in microseconds."""
        return quantities.parse_delay(self.response) if self.response else None


Ring = Annotated[int, Field(ge=16, le=65536)]
Usecs = Annotated[int, Field(ge=0, le=65535)]


class DscpPriority(Section):
    """The priority of what carries a DSCP."""

    dscp: int = Field(ge=0, le=63)
    priority: Priority


class TrafficClasses(Section):
    """Enhanced transmission selection (IEEE 802.1Qaz): how traffic classes share a port."""

    classes: tuple[Priority, ...] = Field(
        min_length=8, max_length=8, description="traffic class of priorities 0 to 7"
    )
    bandwidth: tuple[Annotated[int, Field(ge=0, le=100)], ...] = Field(
        default=(0,) * 8,
        min_length=8,
        max_length=8,
        description="percent of classes 0 to 7; 0 is served strictly, before the others",
    )


class PortBuffers(Section):
    """Receive buffers of a port, where the driver has them to set."""

    of: tuple[Priority, ...] = Field(min_length=8, max_length=8, description="buffer of priorities 0 to 7")
    sizes: tuple[Size, ...] = Field(min_length=8, max_length=8, description="sizes of buffers 0 to 7")


class Nic(Section):
    """Settings of the hosts' network cards; what is left out stays as it is."""

    pause: Literal["on", "off"] | None = Field(
        default=None, description="pause of the whole link (IEEE 802.3x); off with `pfc`"
    )
    rx_ring: Ring | None = Field(default=None, description="descriptors of a receive queue")
    tx_ring: Ring | None = Field(default=None, description="descriptors of a transmit queue")
    channels: Annotated[int, Field(ge=1, le=1024)] | None = Field(default=None, description="pairs of queues")
    adaptive: bool | None = Field(default=None, description="the driver chooses when to interrupt")
    rx_usecs: Usecs | None = Field(default=None, description="wait before a receive interrupt, us")
    tx_usecs: Usecs | None = Field(default=None, description="wait before a transmit interrupt, us")
    dscp: tuple[DscpPriority, ...] = Field(
        default=(), max_length=64, description="priorities by DSCP beside that of `roce`"
    )
    ets: TrafficClasses | None = Field(default=None, description="how traffic classes share a port")
    max_rates: tuple[Rate, ...] | None = Field(
        default=None, min_length=8, max_length=8, description="the most that traffic classes 0 to 7 may send"
    )
    trust: tuple[Literal["dscp", "pcp"], ...] | None = Field(
        default=None,
        min_length=1,
        max_length=2,
        description="what a packet's priority is taken from, the first that it has",
    )
    dcbx: Literal["host"] | None = Field(
        default=None, description="`host`: the card's firmware stops speaking DCBX, so that settings stay"
    )
    buffers: PortBuffers | None = Field(default=None, description="receive buffers of a port")
    required: bool = Field(
        default=False, description="a card that lacks what is asked for is an error, not a remark"
    )


class HostPort(Section):
    """The network interface that plays one port of a server."""

    interface: str = Field(
        pattern=r"^[^\s/:]{1,15}$", description="interface name", examples=["eth1", "enp65s0f0np0"]
    )
    mac: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$",
        description="MAC address that the card has, in lower case; asked for by ARP unless given",
        examples=["02:00:00:aa:bb:01"],
    )


class Host(Section):
    """The machine that plays one server."""

    host: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9.:_-]{1,253}$", description="host name", examples=["node7.cluster"]
    )
    ports: tuple[HostPort, ...] = Field(min_length=1, description="interfaces in order of the server's ports")


def _where(nodes: Any) -> str:
    return "hosts" if isinstance(nodes, dict) else "lab"


Nodes = Annotated[
    Annotated[Literal["lab"], Tag("lab")] | Annotated[dict[str, Host], Tag("hosts")],
    Discriminator(_where),
]


class Lab(Section):
    """What the one-machine lab is made of."""

    switch: Literal["bridge", "lossless"] = Field(
        default="bridge",
        description="what plays a switch: the kernel's bridge (or router), or the soft switch, which obeys `pfc`",
    )
    buffer: Size = Field(default="2MiB", description="buffer that the ports of a lossless switch share")
    scheduling: Literal["strict", "weighted"] = Field(
        default="strict",
        description="which priority leaves a lossless switch first: the highest, or by turns",
    )
    weights: tuple[Annotated[int, Field(ge=1, le=100)], ...] = Field(
        default=(1,) * 8, min_length=8, max_length=8, description="shares of priorities 0 to 7, if weighted"
    )

    @property
    def buffer_bytes(self) -> int:
        """Size of the shared buffer in bytes."""
        return quantities.parse_size(self.buffer)


class Topology(Section):
    """A whole topology file."""

    version: Literal[1] = Field(description="version of this schema")
    name: str = Field(
        pattern=r"^[a-z][a-z0-9-]{0,15}$",
        description="name of the fabric; marks everything that is made for it",
        examples=["demo", "rack-7"],
    )
    fabric: Annotated[BCube | Torus | FatTree, Field(discriminator="kind")]
    link: Cable = Cable()
    addresses: Addresses = Addresses()
    roce: Roce = Roce()
    pfc: Pfc | None = Field(default=None, description="lossless priorities; left out: all traffic is lossy")
    nic: Nic = Nic()
    nodes: Nodes = Field(default="lab", description="`lab`, or for every server the machine that plays it")
    lab: Lab = Lab()
