# SPDX-License-Identifier: Apache-2.0
"""`hipsnet doctor` on this machine, with and without privileges."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from hipsnet.node import dcb, namespace
from orchestrator import topology_file
from orchestrator.lab.namespaces import namespace_name
from orchestrator.machine import doctor
from orchestrator.machine.doctor import Check, can_run_lab, examine

DOCTOR = [sys.executable, "-c", "from orchestrator.cli import main; main()", "doctor"]


def run(*options: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [*prefix, *DOCTOR, *options], capture_output=True, text=True, check=False, env=environment
    )


def test_this_machine_can_run_the_lab_and_nothing_is_left() -> None:
    checks = {check.name: check for check in examine()}
    needed = {name for name, check in checks.items() if check.needed}
    assert needed == {
        "kernel",
        "capabilities",
        "libbpf",
        "bcc",
        "kernel headers",
        "kernel programs",
        "network namespaces",
        "veth and bridge",
        "XDP native, MTU 9000",
        "HTB",
    }
    assert [name for name in needed if not checks[name].ok] == []
    assert {"bpffs", "delay line", "soft switch", "AF_XDP", "RDMA devices", "DCB NICs"} <= set(checks)
    assert all(check.ok != bool(check.fix) for check in checks.values())
    assert f"hipsnet-doctor-{os.getpid()}" not in namespace.names()


def test_json_is_clean_and_says_the_same() -> None:
    done = run("--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], done.stderr) == (0, True, "")
    assert [set(check) for check in report["checks"]] == [
        {"name", "ok", "needed", "found", "fix"} for _ in report["checks"]
    ]


def test_the_table_names_what_is_missing_and_how_to_fix_it() -> None:
    done = run()
    assert done.returncode == 0
    assert "This machine can run the lab." in done.stdout
    for check in examine():
        assert check.name in done.stdout
        assert not check.fix or "-> " in done.stdout


def test_missing_capabilities_are_reported_and_fail() -> None:
    done = run("--json", prefix=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    report = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    assert not report["capabilities"]["ok"]
    assert report["capabilities"]["found"].startswith("without CAP_NET_ADMIN")
    assert not report["network namespaces"]["ok"]
    for name in ("network namespaces", "veth and bridge", "XDP native, MTU 9000", "HTB", "AF_XDP"):
        assert not report[name]["ok"]
        assert "root" in report[name]["found"] and report[name]["fix"] == "sudo hipsnet doctor"


def test_without_capabilities_a_lab_s_ports_are_left_for_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text("version: 1\nname: norights\nfabric: {kind: bcube, n: 2, levels: 1}\n")
    _, fabric = topology_file.load(file)
    names = [namespace_name("norights", server.name) for server in fabric.servers]
    for name in names:
        namespace.create(name, "hipsnet test")
    try:
        done = run(str(file), "--json", prefix=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    finally:
        for name in names:
            namespace.delete(name)
    report = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert report["kernel headers"]["ok"]
    assert report["RDMA of the lab"]["found"] == "not tried: needs root"
    assert report["RDMA of the lab"]["fix"] == "sudo hipsnet doctor FILE"


def test_without_compiler_and_headers_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_headers", lambda: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    checks = {check.name: check for check in examine()}
    assert checks["bcc"].fix == "apt install python3-bpfcc, then tools/setup"
    assert checks["kernel headers"].fix == "apt install linux-headers-amd64"
    assert not can_run_lab(tuple(checks.values()))


def test_the_ports_of_a_topology_are_checked_in_their_namespaces(tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    head = "version: 1\nname: t\nfabric: {kind: bcube, n: 2, levels: 1}\n"
    file.write_text(
        f"{head}nodes:\n  s0: {{host: {platform.node()}, ports: [{{interface: nosuch0}}]}}\n"
        "  s1: {host: elsewhere, ports: [{interface: nosuch1}]}\n"
    )
    for options, name, port in (((), "s0", "nosuch0"), (("--node", "s1"), "s1", "nosuch1")):
        (check,) = (
            check
            for check in json.loads(run(str(file), *options, "--json").stdout)["checks"]
            if check["name"].startswith("RDMA of")
        )
        assert (check["name"], check["ok"], check["found"]) == (f"RDMA of {name}", False, f"{port}: none")
        assert "roce: {device: rxe}" in check["fix"]


def test_a_node_that_is_not_on_this_host_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    head = "version: 1\nname: nowhere\nfabric: {kind: bcube, n: 2, levels: 1}\n"
    ports = "ports: [{interface: eth0}]"
    for rest, message in (
        (
            f"nodes:\n  s0: {{{ports}}}\n  s1: {{host: b, {ports}}}\n",
            "name the server of this machine: --node NAME",
        ),
        ("", "run `hipsnet provision` first"),
    ):
        file.write_text(head + rest)
        done = run(str(file))
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert run("--node", "s0").returncode == 2


def test_only_what_is_needed_decides() -> None:
    fine, spare = Check("a", True, True, ""), Check("b", False, False, "", "fix")
    assert can_run_lab((fine, spare))
    assert not can_run_lab((fine, Check("c", False, True, "", "fix")))


def test_veth_has_no_dcb_and_a_missing_interface_is_an_error() -> None:
    name = f"test-dcb-{os.getpid()}"
    namespace.create(name, "hipsnet test")
    try:
        with namespace.inside(name), IPRoute() as netlink:
            netlink.link("add", ifname="v0", kind="veth", peer={"ifname": "v1"})
            assert dcb.pfc_classes("v0") is None
            with pytest.raises(OSError) as raised:
                dcb.pfc_classes("nosuch")
            assert raised.value.errno == errno.ENODEV
    finally:
        namespace.delete(name)
