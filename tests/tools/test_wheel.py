# SPDX-License-Identifier: Apache-2.0
"""An installed wheel is all that the command needs, sources of the kernel programs included."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from hipsnet.node import namespace
from orchestrator.provision import removal

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = f"wheel{os.getpid():x}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the wheel's content under `site`."""
    if os.geteuid() != 0:
        pytest.skip("root: makes network namespaces")
    built = tmp_path / "built"
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(built),
        str(REPOSITORY),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", tmp_path / "site", wheel], check=True, capture_output=True)
    return tmp_path


def test_a_lab_out_of_a_wheel(place: Path) -> None:
    file = place / "topology.yaml"
    file.write_text(f"version: 1\nname: {NAME}\nfabric: {{kind: bcube, n: 2, levels: 2}}\n")
    # An empty cache, so that the programs are compiled from the wheel.
    environ = {**os.environ, "PYTHONPATH": str(place / "site"), "XDG_CACHE_HOME": str(place / "cache")}

    def installed(*code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", *code], cwd=place, env=environ, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def hipsnet(*arguments: str) -> str:
        return installed("from orchestrator.cli import main; main()", *arguments)

    files = installed(
        "import hipsnet, kernel, orchestrator as o; print(hipsnet.__file__, kernel.__file__, o.__file__)"
    )
    assert all(path.startswith(str(place / "site")) for path in files.split())
    own = metadata.version("hipsnet")
    assert installed("from importlib.metadata import version; print(version('hipsnet'))") == f"{own}\n"
    assert hipsnet("--version") == f"hipsnet {own}\n"
    assert hipsnet("help", "units").startswith("# Units of rates")
    assert (place / "site/orchestrator/lab/shell.bashrc").exists()
    try:
        hipsnet("provision", str(file))
        assert "24 paths: 24 reach their server" in hipsnet("ping", str(file))
        assert '"correct": true' in hipsnet("run", str(file), "--size", "64KiB", "--check", "--json", "-")
        hipsnet("impair", str(file), "s00.p0", "--delay", "1ms")  # builds the delay line, too
    finally:
        removal.destroy(NAME)
    assert not [name for name in namespace.names() if name.startswith(NAME)]
