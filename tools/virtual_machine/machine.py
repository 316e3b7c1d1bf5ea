# SPDX-License-Identifier: Apache-2.0
"""Boot a virtual machine, run one command in it, and remove everything afterwards.

virtme-ng boots the kernel on the files of this host, read-only; writes stay in the machine's memory. The command
goes in over standard input, its output comes out over three virtio ports (see guest.sh), so no shell parses it
and the console's output is separate.

All processes are in a PID namespace whose first process the kernel kills with this one, and their temporary
files are on a tmpfs in a mount namespace of their own: nothing is left, however this process ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from hipsnet.errors import HipsnetError
from tools.virtual_machine.installed import find_kernel, require_programs

ROOT = Path(__file__).resolve().parents[2]
BOOT_S = 240.0
"""A boot by software emulation takes 45 s on 2 idle cores; one that takes so long hangs."""
_POLL_S = 0.2
_END_S = 10.0
_MESSAGE_BYTES = 1 << 20
_CONSOLE_BYTES = 1 << 16
_TAIL_LINES = 15
_GUEST = Path(__file__).with_name("guest.sh")
_KERNEL_OPTIONS = (
    "loglevel=4",  # warnings on the console
    "mitigations=off",  # the machine lives for minutes
    "no5lvl",
    "rcupdate.rcu_expedited=1",  # network namespaces end without delay
    "nowatchdog",
    "no_timer_check",  # on a busy host the check finds no timer, and the boot hangs (the kernel skips it under KVM)
    "tsc=reliable",  # with two processors the kernel would read the HPET: twice the time for each packet
)

# The folder that hides is one that every machine has and the guest mounts anew anyway.
_PRIVATE = 'mount -t tmpfs -o mode=0755 hipsnet-vm /dev/shm && exec "$@"'

Stream = Literal["stdout", "stderr"]
Pipe = Literal["stdout", "stderr", "answer", "console"]
_PIPES: tuple[Pipe, ...] = ("stdout", "stderr", "answer", "console")


class MachineError(HipsnetError):
    """The machine failed, not the command in it. The message ends with the last lines of its console."""

    exit_code = 125


class MachineTimeoutError(MachineError):
    """The command did not end within the time that it was given."""

    exit_code = 124


@dataclass(frozen=True)
class Order:
    """A command, and the machine to run it in.

    `memory` is a number and M or G. `modules` are loaded first. `writable` are folders of this machine in
    which the command may write. The command gets `timeout_s` from the start of the boot on; `wait_s` is for
    other machines to end before that, and `waiting` is called if there are any.
    """

    command: Sequence[str]
    folder: Path = ROOT
    cpus: int = 2
    memory: str = "1G"
    modules: Sequence[str] = ()
    writable: Sequence[Path] = ()
    timeout_s: float = 300.0
    wait_s: float = 1800.0
    kernel: Path | None = None
    waiting: Callable[[], None] = lambda: None


class Machine:
    """A running machine: `with Machine(order) as machine`, read `outputs()` to the end, then `exit_code`.

    Raises CapabilityError if something is not installed, MachineError if it cannot be had or breaks,
    MachineTimeoutError. Only one machine runs at a time; others wait for it.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._console = b""
        self._answer = b""
        self.is_ready = False
        self.exit_code: int | None = None

    def __enter__(self) -> Machine:
        require_programs()
        kernel = self._order.kernel or find_kernel()
        self._lock = _locked(kernel, self._order)
        try:
            self._start(kernel)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.send_signal(signal.SIGKILL)  # of unshare: the kernel ends all in its PID namespace
        deadline = time.monotonic() + _END_S
        while self._pipes and time.monotonic() < deadline:  # until nobody in there holds an end any more
            for _ in self._read():
                pass
        for fd in self._pipes:
            os.close(fd)
        os.close(self._lock)

    def outputs(self) -> Iterator[tuple[Stream, bytes]]:
        """The output of the command, as it arrives, until the command has ended."""
        while self.exit_code is None:
            found = list(self._read())
            self._understand()
            yield from found
            if self.exit_code is None:
                self._check(is_silent=not found)
        yield from self._read()  # output from before the command's end

    def _start(self, kernel: Path) -> None:
        message = _message(self._order)
        ends = {name: os.pipe() for name in _PIPES}
        inner = [writer for _, writer in ends.values()]
        try:
            command = _command(
                kernel, self._order, {name: ends[name][1] for name in ends if name != "console"}
            )
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=ends["console"][1],
                stderr=ends["console"][1],
                pass_fds=inner,
                env={**os.environ, "TMPDIR": "/dev/shm", "HOME": "/dev/shm", "PYTHONPATH": ""},
            )
        finally:
            for writer in inner:
                os.close(writer)
        self._pipes = {reader: name for name, (reader, _) in ends.items()}
        assert self._process.stdin is not None
        fcntl.fcntl(self._process.stdin, fcntl.F_SETPIPE_SZ, _MESSAGE_BYTES)
        self._process.stdin.write(message)
        self._process.stdin.flush()
        self._begun = time.monotonic()

    def _read(self) -> Iterator[tuple[Stream, bytes]]:
        """Wait a moment for data and read it; a pipe without writers is closed."""
        ready, _, _ = select.select(list(self._pipes), [], [], _POLL_S)
        for fd in ready:
            name = self._pipes[fd]
            data = os.read(fd, 1 << 16)
            if not data:
                os.close(fd)
                del self._pipes[fd]
            elif name == "console":
                self._console = (self._console + data)[-_CONSOLE_BYTES:]
            elif name == "answer":
                self._answer += data
            else:
                yield name, data

    def _understand(self) -> None:
        *lines, self._answer = self._answer.split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "failed":
                raise MachineError(f"the machine booted, but: {rest}{self._tail()}")
            self.is_ready = True
            if word == "exit":
                self.exit_code = int(rest)

    def _check(self, is_silent: bool) -> None:
        """Raise if the machine is gone and has no more to say, or if its time is over."""
        passed = time.monotonic() - self._begun
        where = "while it ran the command" if self.is_ready else "before it had booted"
        if is_silent and self._process.poll() is not None:
            raise MachineError(f"the machine ended {where}{self._tail()}")
        if passed > self._order.timeout_s and self.is_ready:
            raise MachineTimeoutError(
                f"the command has not ended within {self._order.timeout_s:g} s (including the boot) "
                f"and was stopped{self._tail()}"
            )
        if not self.is_ready and passed > min(self._order.timeout_s, BOOT_S):
            raise MachineTimeoutError(f"the machine did not boot within {passed:.0f} s{self._tail()}")

    def _tail(self) -> str:
        lines = [line for line in map(_plain, self._console.splitlines()) if line]
        panic = next((number for number, line in enumerate(lines) if "Kernel panic" in line), None)
        last = lines[-_TAIL_LINES:] if panic is None else lines[panic : panic + _TAIL_LINES]
        told = "\n".join(f"  | {line}" for line in last)
        return f"; its console said last:\n{told}" if told else "; its console said nothing"


def _command(kernel: Path, order: Order, ports: dict[str, int]) -> list[str]:
    """The command line that boots the machine; `ports` are descriptors of pipes."""
    shared = [f"--rwdir={path.resolve()}" for path in order.writable]
    files = "local,id=hipsnet-root,path=/,security_model=none,readonly=on,multidevs=remap"
    devices = ["-fsdev", files, "-device", "virtio-9p-pci,fsdev=hipsnet-root,mount_tag=hipsnet.root"]
    for name, fd in ports.items():
        devices += ["-chardev", f"file,id=hipsnet-{name},path=/proc/self/fd/{fd}"]
        devices += ["-device", f"virtserialport,name=hipsnet.{name},chardev=hipsnet-{name}"]
    return [
        "setpriv", "--pdeathsig", "KILL",
        "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--",
        "sh", "-c", _PRIVATE, "sh",
        sys.executable, "-m", "virtme.commands.run",
        # With KVM the distribution's kernel has been seen to hang where /dev/kvm is there.
        "--disable-kvm", "--mods=auto", "--force-9p", "--show-boot-console",
        "--kimg", str(kernel), "--cpus", str(order.cpus), "--memory", order.memory,
        *shared,
        *(f"--kopt={option}" for option in _KERNEL_OPTIONS),
        f"--script-sh=exec bash {_quoted(_GUEST)}",
        "--qemu-opts", *devices,
    ]  # fmt: skip


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _message(order: Order) -> bytes:
    """The message that guest.sh reads."""
    strings = [
        str(order.folder),
        str(len(order.writable)),
        *(str(path.resolve()) for path in order.writable),
        str(len(order.modules)),
        *order.modules,
        str(len(order.command)),
        *order.command,
    ]
    if any("\0" in string for string in strings):
        raise MachineError("a NUL in the command; no program takes one")
    message = b"".join(os.fsencode(string) + b"\0" for string in strings)
    if len(message) > _MESSAGE_BYTES:
        raise MachineError(f"a command may have at most {_MESSAGE_BYTES} bytes; this one has {len(message)}")
    return message


def _locked(kernel: Path, order: Order) -> int:
    """Open and lock the kernel image. The lock lasts as long as the machine; it needs no file of its own."""
    handle = os.open(kernel, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        order.waiting()
        # A blocking flock is fair; a process that polls may never get the lock.
        queue = threading.Thread(target=_queue, args=(handle, given_up := threading.Event()), daemon=True)
        queue.start()
        queue.join(order.wait_s)
        if queue.is_alive():
            given_up.set()
            raise MachineError(
                f"other machines have been running for {order.wait_s:g} s (see lslocks for {kernel}); "
                "run this again when they have ended"
            ) from None
    return handle


def _queue(handle: int, given_up: threading.Event) -> None:
    fcntl.flock(handle, fcntl.LOCK_EX)
    if given_up.is_set():
        os.close(handle)


def _plain(line: bytes) -> str:
    """A console line without escapes and control characters."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1bc", "", line.decode(errors="replace"))
    return re.sub(r"[\x00-\x08\x0b-\x1f]", "", text).rstrip()
