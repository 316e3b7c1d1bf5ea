# SPDX-License-Identifier: Apache-2.0
"""The kernel's test-run: run a loaded XDP program on a frame, or on live frames as a generator."""

from __future__ import annotations

import ctypes
import struct

from hipsnet.node import bpf

VERDICTS = ("aborted", "drop", "pass", "tx", "redirect")
_LIVE_FRAMES = 1 << 1  # BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18
_ROOM_BYTES = 1 << 16


class _Options(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("data_in", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_char_p),
        ("ctx_out", ctypes.c_void_p),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    )


def run_frame(
    program: int, frame: bytes, ifindex: int, first_buffer: int | None = None, repeat: int = 1
) -> tuple[str, bytes]:
    """Run the program on a frame that arrives at an interface of this namespace; return (verdict, frame after).

    The interface is up and has a program attached. `first_buffer` bytes are in the first of several buffers
    (Linux 6.18). Each repetition gets the frame that the last one left; the last result is returned. A redirected
    frame is not sent.
    """
    out = ctypes.create_string_buffer(_ROOM_BYTES)
    options = _options(frame, ifindex, len(frame) if first_buffer is None else first_buffer)
    options.data_out, options.data_size_out = ctypes.addressof(out), len(out)
    options.repeat = repeat
    bpf.answer(
        bpf.libbpf().bpf_prog_test_run_opts(program, ctypes.byref(options)), "run a program on a frame"
    )
    return VERDICTS[options.retval], out.raw[: options.data_size_out]


def run_live(program: int, frame: bytes, ifindex: int, frames: int) -> None:
    """Run the program on `frames` copies of a frame and carry out its verdict for each (send, pass up)."""
    options = _options(frame, ifindex, len(frame))
    options.repeat, options.flags = frames, _LIVE_FRAMES
    bpf.answer(
        bpf.libbpf().bpf_prog_test_run_opts(program, ctypes.byref(options)), "run a program on live frames"
    )


def _options(frame: bytes, ifindex: int, first_buffer: int) -> _Options:
    # struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
    context = struct.pack("=6I", 0, first_buffer, 0, ifindex, 0, 0)
    return _Options(
        sz=ctypes.sizeof(_Options),
        data_in=frame,
        data_size_in=len(frame),
        ctx_in=context,
        ctx_size_in=len(context),
    )
