# SPDX-License-Identifier: Apache-2.0
"""tools/setup on a machine that has none of the packages."""

import os
import subprocess
from pathlib import Path

SETUP = Path(__file__).parents[2] / "tools" / "setup"


def test_a_machine_without_any_of_the_packages_gets_all_of_them(tmp_path: Path) -> None:
    database = tmp_path / "dpkg"
    (database / "updates").mkdir(parents=True)
    (database / "status").touch()
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 1\n')
    apt.chmod(0o755)
    environment = os.environ | {
        "DPKG_ADMINDIR": str(database),
        "PATH": f"{apt.parent}:{os.environ['PATH']}",
    }
    done = subprocess.run([SETUP], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "tools/setup: installing python3-bpfcc" in done.stderr
    assert "tools/setup: cannot install python3-bpfcc" in done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == "update -qq" and all(name in asked[1].split() for name in ("gcc", "prometheus"))
