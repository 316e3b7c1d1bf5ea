# SPDX-License-Identifier: Apache-2.0
"""tools/vm: its errors, its clean-up, and one command in a machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hipsnet.errors import CapabilityError
from tools.virtual_machine.installed import find_kernel, require_programs
from tools.virtual_machine.machine import Machine, MachineError, MachineTimeoutError, Order

REPOSITORY = Path(__file__).resolve().parents[2]


def installed(root: Path, *releases: str, modules: bool = True) -> Path:
    """A file system with these kernels, all empty."""
    for release in releases:
        (root / "boot").mkdir(exist_ok=True)
        (root / "boot" / f"vmlinuz-{release}").touch()
        if modules:
            (root / "lib/modules" / release / "kernel").mkdir(parents=True)
    return root


def test_takes_the_newest_kernel_that_has_its_modules(tmp_path: Path) -> None:
    installed(tmp_path, "6.1.0-9-amd64", "6.1.0-56-amd64", "5.10.0-99-amd64")
    installed(tmp_path, "6.12.1-amd64", modules=False)
    assert find_kernel(tmp_path).name == "vmlinuz-6.1.0-56-amd64"


@pytest.mark.parametrize(
    ("system", "package"), [("debian", "linux-image-amd64"), ("ubuntu", "linux-image-generic")]
)
def test_names_the_package_that_brings_a_kernel(tmp_path: Path, system: str, package: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(f'NAME="x"\nID={system}\n')
    with pytest.raises(CapabilityError, match=f"apt install {package}$"):
        find_kernel(tmp_path)
    installed(tmp_path, "6.1.0-9-amd64", modules=False)
    with pytest.raises(CapabilityError, match=r"found .*vmlinuz-6\.1\.0-9-amd64; apt install"):
        find_kernel(tmp_path)


def test_names_the_packages_of_missing_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("modprobe", "file", "setpriv", "unshare"):
        (tmp_path / program).symlink_to(shutil.which(program) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = "not installed: qemu-system-x86_64, busybox; apt install busybox-static qemu-system-x86"
    with pytest.raises(CapabilityError, match=missing):
        require_programs()
    command = [sys.executable, "-m", "tools.virtual_machine", "--", "true"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert missing in done.stderr


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Path]:
    """A copy of the kernel, so that its machines wait for no other; none may remain."""
    path = tmp_path / find_kernel().name
    shutil.copy(find_kernel(), path)
    yield path
    deadline = time.monotonic() + 5
    while remaining := processes(path):
        assert time.monotonic() < deadline, remaining
        time.sleep(0.05)


def processes(kernel: Path) -> list[int]:
    """The processes that have this kernel on their command line, this one's children or not."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if os.fsencode(kernel) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def run(order: Order) -> tuple[int | None, dict[str, bytes]]:
    outputs = {"stdout": b"", "stderr": b""}
    with Machine(order) as machine:
        for stream, data in machine.outputs():
            outputs[stream] += data
    return machine.exit_code, outputs


def test_a_panic_is_reported_with_the_last_lines_of_the_console(kernel: Path) -> None:
    with pytest.raises(MachineError, match=r"ended before it had booted(.|\n)*Kernel panic") as raised:
        run(Order(["true"], kernel=kernel, memory="80M", timeout_s=120))
    assert not isinstance(raised.value, MachineTimeoutError)


def test_a_file_that_is_no_kernel_is_reported_with_the_error_of_qemu(kernel: Path) -> None:
    kernel.write_bytes(b"no kernel" * 1000)
    with pytest.raises(MachineError, match=r"ended before it had booted(.|\n)*kernel"):
        run(Order(["true"], kernel=kernel))


def test_a_boot_that_does_not_end_in_time_is_ended(kernel: Path) -> None:
    temporary = set(Path("/tmp").iterdir()) | set(Path("/dev/shm").iterdir())
    with pytest.raises(MachineTimeoutError, match=r"did not boot within 1 s; its console said"):
        run(Order(["true"], kernel=kernel, timeout_s=1))
    assert not {
        path for path in {*Path("/tmp").glob("virtme*"), *Path("/dev/shm").iterdir()} if path not in temporary
    }


def test_a_killed_tool_ends_its_machine(kernel: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tools.virtual_machine.machine import Machine, Order\n"
        "with Machine(Order(['true'], kernel=Path(sys.argv[1]))) as machine: list(machine.outputs())"
    )
    tool = subprocess.Popen([sys.executable, "-c", script, kernel], cwd=REPOSITORY)
    while not any(b"qemu" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes(kernel)):
        assert tool.poll() is None
        time.sleep(0.05)
    tool.send_signal(signal.SIGKILL)
    tool.wait()  # the fixture checks for leftovers


def test_one_machine_at_a_time(kernel: Path) -> None:
    waited = []
    with kernel.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(MachineError, match=r"other machines have been running for 0\.3 s"):
            run(Order(["true"], kernel=kernel, wait_s=0.3, waiting=lambda: waited.append(1)))
    assert waited == [1]


def test_refuses_a_command_that_cannot_be_passed_on(kernel: Path) -> None:
    for command, why in ((["a\0b"], "NUL"), (["x" * (1 << 20)], "at most 1048576 bytes")):
        with pytest.raises(MachineError, match=why):
            run(Order(command, kernel=kernel))


HOSTILE = ["a b", "", "'", '"', "$HOME `id` $(id)", "*", "\\", "line\nline", "ä", ";false", "--cpus"]


def test_a_commands_output_and_exit_code_are_passed_on(tmp_path: Path, kernel: Path) -> None:
    place = tmp_path / "written-here"
    place.mkdir()
    script = (
        'printf "%s\\0" "$@"; uname -r >"$0/release"; cat /proc/modules >"$0/modules"; touch /usr/bin/gone; '
        "pwd >&2; exit 42"
    )
    options = ["--module", "rdma_rxe", "--writable", str(place), "--memory", "768M", "--cpus", "2"]
    options += ["--kernel", str(kernel)]
    command = [str(REPOSITORY / "tools/vm"), *options, "--", "bash", "-c", script, str(place), *HOSTILE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 42, done.stderr
    assert done.stdout == "".join(f"{word}\0" for word in HOSTILE)
    assert done.stderr.endswith(f"{tmp_path}\n")
    assert (place / "release").read_text().strip() == find_kernel().name.removeprefix("vmlinuz-")
    assert "rdma_rxe" in (place / "modules").read_text()
    assert not Path("/usr/bin/gone").exists()
