# SPDX-License-Identifier: Apache-2.0
"""`roce`: RDMA devices, priority and marking of RoCE traffic, congestion control."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hipsnet.topology.schema.section import Priority, Section, Size


class Ecn(Section):
    """Queue lengths at which switches mark packets."""

    enabled: bool = Field(default=True, description="mark packets")
    kmin: Size = Field(default="100KiB", description="queue length at which marking begins")
    kmax: Size = Field(default="400KiB", description="queue length above which every packet is marked")
    pmax: float = Field(default=0.2, gt=0, le=1, description="share of packets marked just below kmax")


class Dcqcn(Section):
    """A congestion control parameter of the NIC's driver."""

    name: str = Field(
        pattern=r"^(np|rp)_[a-z0-9_]{1,40}$",
        description="name in debugfs, mlx5/*/cc_params",
        examples=["rp_ai_rate", "np_cnp_dscp"],
    )
    value: int = Field(ge=0, le=2**32 - 1, description="its value")


class Roce(Section):
    """RDMA devices and the marking of RoCE traffic."""

    device: Literal["nic", "rxe"] = Field(
        default="nic",
        description="RDMA device of a server port: the NIC's own, or a software device (rdma_rxe) on it",
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
        default=False, description="on hosts: fail if a NIC lacks a setting, instead of reporting it"
    )
