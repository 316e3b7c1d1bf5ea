# SPDX-License-Identifier: Apache-2.0
"""The bpf system call, by libbpf: maps, programs, pins and attachments as file descriptors and bytes."""

from hipsnet.node.bpf.attachments import Attachment, attach, attached, unattach
from hipsnet.node.bpf.bpffs import open_pin, pin
from hipsnet.node.bpf.call import answer, closing, libbpf
from hipsnet.node.bpf.maps import (
    MAP_OF_MAPS,
    MAPPABLE,
    READ_ONLY_FOR_PROGRAMS,
    RING,
    Lookup,
    MapInfo,
    create_map,
    delete,
    keys,
    lookup,
    map_info,
    open_map,
    update,
)
from hipsnet.node.bpf.programs import ProgramInfo, load_xdp, open_program, program_by_id, program_info

__all__ = [
    "MAPPABLE",
    "MAP_OF_MAPS",
    "READ_ONLY_FOR_PROGRAMS",
    "RING",
    "Attachment",
    "Lookup",
    "MapInfo",
    "ProgramInfo",
    "answer",
    "attach",
    "attached",
    "closing",
    "create_map",
    "delete",
    "keys",
    "libbpf",
    "load_xdp",
    "lookup",
    "map_info",
    "open_map",
    "open_pin",
    "open_program",
    "pin",
    "program_by_id",
    "program_info",
    "unattach",
    "update",
]
