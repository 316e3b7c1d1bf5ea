# SPDX-License-Identifier: Apache-2.0
"""`hipsnet run`: the programs' environment, the engine's flags and variables, measurements and their JSON."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from hipsnet.collective.models import ITEM_BYTES
from hipsnet.errors import InputError
from hipsnet.node import namespace
from hipsnet.settings import VARIABLES, Settings
from orchestrator import topology_file
from orchestrator.commands import jobs
from orchestrator.jobs import pattern, registry
from orchestrator.jobs.measurement import Case, Measurement, count
from orchestrator.jobs.request import listed
from orchestrator.jobs.results import Result, combine
from orchestrator.jobs.table import columns, heading, row
from orchestrator.provision import provisioning, removal
from orchestrator.telemetry.job_pauses import JobPauses
from tests.lab import rig
from tests.lab.rig import command_line

ROOT = Path(__file__).parents[2]
ENGINE_FLAGS = {row.field: row for row in VARIABLES if row.flag}
OTHER_VALUES = {
    "algorithm": "ring",
    "exchange": "ring,ps",
    "one_way": "1",
    "servers": "3",
    "transport": "tcp",
    "port": "4242",
    "timeout_s": "7.5s",
    "warn_s": "2.5s",
    "start_timeout_s": "30s",
    "chunk_bytes": "64KiB",
    "congestion": "reno",
    "ack_timeout": "14",
    "retries": "3",
    "rnr_retries": "2",
}
"""For every engine flag a value other than its default (other transports require more than a name)."""


def hipsnet(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from orchestrator.cli import main; main()", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=200,
    )


def topology_text(name: str, fabric: str) -> str:
    return f"version: 1\nname: {name}\nfabric: {fabric}\nlink: {{rate: 200Mbit/s, mtu: 1500}}\n"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The topology file of four servers that are bare namespaces: enough for programs that do not talk."""
    file = tmp_path_factory.mktemp("places") / "topology.yaml"
    name = f"jr{uuid.uuid4().hex[:6]}"
    file.write_text(topology_text(name, "{kind: bcube, n: 2, levels: 2}"))
    _, fabric = topology_file.load(file)
    made = [f"{name}-{server.name}" for server in fabric.servers]
    try:
        for one in made:
            namespace.create(one, f"hipsnet {name} {one.removeprefix(name)[1:]}")
        yield file
    finally:
        for one in made:
            namespace.delete(one)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The topology file of a provisioned BCube(2,2)."""
    file = tmp_path_factory.mktemp("lab") / "topology.yaml"
    file.write_text(topology_text(f"jl{uuid.uuid4().hex[:6]}", "{kind: bcube, n: 2, levels: 2}"))
    topology, fabric = topology_file.load(file)
    try:
        provisioning.provision(topology, fabric, str(file), lambda _: lambda _: None)
        yield file
    finally:
        removal.destroy(fabric.name)


def environments(done: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    """The output of `env` on every rank, in order of rank."""
    found: dict[str, dict[str, str]] = {}
    for line in done.stdout.splitlines():
        server, _, text = line.partition("] ")
        key, _, value = text.partition("=")
        found.setdefault(server, {})[key] = value
    return sorted(found.values(), key=lambda environment: int(environment["RANK"]))


def test_environment_is_complete(places: Path) -> None:
    _, fabric = topology_file.load(places)
    done = hipsnet("run", places, "--", "env", MINE="kept")
    assert done.returncode == 0, done.stderr
    found = environments(done)
    assert len(found) == 4
    for rank, environment in enumerate(found):
        expected = {
            "RANK": str(rank),
            "WORLD_SIZE": "4",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": str(fabric.servers[0].identity),
            "PET_NNODES": "4",
            "PET_NODE_RANK": str(rank),
            "PET_MASTER_ADDR": str(fabric.servers[0].identity),
            "PET_MASTER_PORT": environment["MASTER_PORT"],
            "MINE": "kept",
        }
        assert expected.items() <= environment.items()
        assert int(environment["MASTER_PORT"]) > 0
        settings = Settings.from_environment(environment)
        assert (settings.rank, settings.world_size) == (rank, 4)
        assert settings.topology == str(places)
        assert len(settings.token) >= 32
    assert len({environment["HIPSNET_TOKEN"] for environment in found}) == 1


NETWORK = {
    "GLOO_SOCKET_IFNAME": "p0",
    "NCCL_SOCKET_IFNAME": "p0",
    "UCX_NET_DEVICES": "p0",
    "OMPI_MCA_btl_tcp_if_include": "p0",
    "OMPI_MCA_oob_tcp_if_include": "p0",
}


def test_other_libraries_are_pointed_to_a_port_unless_they_are_already(places: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if name not in NETWORK}
    command = command_line("run", places, "--", "env")
    for given in ({}, dict.fromkeys(NETWORK, "eth7")):
        done = subprocess.run(command, env=bare | given, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for environment in environments(done):
            assert (NETWORK | given).items() <= environment.items()


@pytest.mark.parametrize("program", ["python", "python3"])
def test_python_is_the_one_that_hipsnet_runs_in(places: Path, program: str) -> None:
    """Also from a shell where another one is first, or none at all; the caller's PATH stays behind it."""
    for path in ("/usr/local/bin:/usr/bin:/bin", "/nowhere"):
        done = hipsnet("run", places, "--", program, "-c", "import sys; print(sys.executable)", PATH=path)
        assert done.returncode == 0, done.stderr
        found = {line.partition("] ")[2] for line in done.stdout.splitlines()}
        assert found == {str(Path(sys.executable).with_name(program))}
    done = hipsnet("run", places, "--", "env", PATH="/nowhere:/usr/bin:/bin")
    assert {e["PATH"] for e in environments(done)} == {
        f"{Path(sys.executable).parent}:/nowhere:/usr/bin:/bin"
    }


def test_programs_run_in_their_servers_namespaces(places: Path) -> None:
    _, fabric = topology_file.load(places)
    done = hipsnet("run", places, "--", "readlink", "/proc/self/ns/net")
    found = dict(line.split("] ") for line in done.stdout.splitlines())
    for server in fabric.servers:
        inode = (namespace.NAMED / f"{fabric.name}-{server.name}").stat().st_ino
        assert found[f"[{server.name}"] == f"net:[{inode}]"


def test_exit_code_is_passed_on_and_the_server_named(places: Path) -> None:
    done = hipsnet("run", places, "--", "bash", "-c", 'if [ "$RANK" = 2 ]; then exit 7; fi; sleep 600')
    assert done.returncode == 7
    assert "s10 (rank 2) ended with exit code 7" in done.stderr


def test_a_second_job_is_warned_about_the_first(places: Path) -> None:
    command = [*command_line("run", places, "--", "sh", "-c", "echo ready; read line || sleep 600")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as first:
        assert first.stdout is not None
        for _ in range(4):
            assert first.stdout.readline().endswith("ready\n")
        (job,) = registry.running_jobs(topology_file.load(places)[1].name)
        assert (job.pid, job.user) == (first.pid, "root") and job.command.startswith("hipsnet run ")
        done = hipsnet("run", places, "--", "true")
        first.terminate()
    assert done.returncode == 0
    assert f"process {first.pid}" in done.stderr and job.command in done.stderr and job.since in done.stderr
    assert "another job" not in hipsnet("run", places, "--", "true").stderr


def test_every_flag_reaches_the_program_by_its_variable(places: Path) -> None:
    flags = [text for field, row in ENGINE_FLAGS.items() for text in (row.flag.name, OTHER_VALUES[field])]
    del flags[flags.index("--one-way") + 1]
    values = {row.name: OTHER_VALUES[field] for field, row in ENGINE_FLAGS.items()}
    for done in (
        hipsnet("run", places, *flags, "--", "env"),
        hipsnet("run", places, "--", "env", **values),
    ):
        assert done.returncode == 0, done.stderr
        found = environments(done)
        assert len(found) == 4
        for environment in found:
            assert {name: environment[name] for name in values} == values


def test_a_jobs_own_place_and_secret_are_not_the_callers_to_choose(places: Path) -> None:
    own = [row.field for row in VARIABLES if not row.flag]
    assert own == ["rank", "world_size", "topology", "token"]
    done = hipsnet("run", places, "--", "env", HIPSNET_TOKEN="mine", RANK="3", WORLD_SIZE="7")
    assert done.returncode == 0, done.stderr
    for rank, environment in enumerate(environments(done)):
        assert (environment["RANK"], environment["WORLD_SIZE"]) == (str(rank), "4")
        assert environment["HIPSNET_TOKEN"] != "mine"


def test_flags_and_variables_are_one_to_one() -> None:
    assert len({row.name for row in VARIABLES}) == len({row.field for row in VARIABLES}) == len(VARIABLES)
    assert OTHER_VALUES.keys() == ENGINE_FLAGS.keys()
    found = {}
    for parameter in inspect.signature(jobs.run).parameters.values():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, typer.models.OptionInfo) and info.envvar:
                found[info.default] = info.envvar
    assert found == {row.flag.name: row.name for row in ENGINE_FLAGS.values()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm", "hisp"], "--algorithm: found 'hisp'; allowed: auto, hips, ring, mesh, ps"),
        (["--timeout", "soon"], "--timeout: found 'soon'; allowed: seconds"),
        (["--warn", "0ms"], "--warn: found '0ms'"),
        (["--chunk", "2KiB"], "--chunk: found '2KiB'; allowed: a size like 512KiB, or bytes; 4KiB to 64MiB"),
        (["--chunk", "much"], "--chunk: found 'much'"),
        (["--retries", "8"], "--retries: found '8'; allowed: a whole number, 0 to 7"),
        (["--iters", "0"], "--iters"),
        (["--size", "big"], "--size: found 'big'; allowed: a number with one of"),
        (["--size", ""], "--size: found ''"),
        (["--sizes", "1KiB,2"], "--sizes: found 2B; needs at least one float32"),
        (["--json", "/tmp"], "--json: root cannot write '/tmp'"),
        (["--port", "0"], "--port: found '0'"),
        (["--port", "65536"], "--port: found '65536'"),
        (["--begin", "1K", "--size", "1K"], "--size and --begin exclude each other"),
        (["-b", "2K", "-e", "1K"], "--begin: found 2048 B; allowed: 1 B to 1024 B"),
        (["-f", "1"], "--factor"),
        (["--exchange", "mesh,star"], "--exchange: found 'mesh,star'"),
        (["--size", "1KiB", "--model", "vgg19"], "--size and --model"),
        (["--sizes", "1KiB:64MiB"], "FIRST:LAST:xFACTOR"),
        (["--dtype", "float8"], "allowed: float16, "),
        (["--model", "vgg99"], "vgg19"),
        (["--json", "/no/such/folder/out.json"], "--json: root cannot write"),
        (["--check", "--", "true"], "--check is for measuring"),
        (["--", "no-such-program"], "no-such-program"),
    ],
)
def test_wrong_options_are_refused(places: Path, arguments: list[str], message: str) -> None:
    done = rig.hipsnet("run", places, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


def test_a_wrong_variable_is_named(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSNET_CHUNK", "half")
    done = rig.hipsnet("run", places, "--", "true")
    assert done.returncode == 2
    assert "HIPSNET_CHUNK: found 'half'; allowed: a size" in done.stderr


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("chunk_bytes", "512KiB", 2**19),
        ("chunk_bytes", "65536", 2**16),
        ("timeout_s", "7.5", 7.5),
        ("timeout_s", "500ms", 0.5),
        ("timeout_s", "10s", 10),
        ("start_timeout_s", "2min", 120),
    ],
)
def test_sizes_and_times_are_written_as_people_do(field: str, text: str, value: float) -> None:
    row = ENGINE_FLAGS[field]
    assert row.read(text) == value
    assert row.read(row.kind.show(value)) == value


def test_a_missing_fabric_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(topology_text("nowhere", "{kind: bcube, n: 2, levels: 2}"))
    done = hipsnet("run", file)
    assert done.returncode == 1
    assert done.stdout == ""
    assert (
        "nowhere is not provisioned: s00, s01, s10, s11 are missing" in done.stderr
        and f"hipsnet provision {file}" in done.stderr
    )


TOKEN = "0123456789abcdef"


def test_settings_survive_the_environment() -> None:
    own = Settings(
        3, 9, "/x/topology.yaml", exchange=("mesh", "ring"), one_way=True, token=TOKEN, warn_s=0.25
    )
    assert Settings.from_environment(own.to_environment()) == own
    assert Settings.from_environment(own.to_environment(), algorithm="ps").algorithm == "ps"


@pytest.mark.parametrize("row", VARIABLES, ids=lambda row: row.name)
def test_wrong_variables_are_refused(row: Any) -> None:
    environ = Settings(0, 9, "/x/topology.yaml", token=TOKEN).to_environment() | {row.name: "\0"}
    with pytest.raises(InputError, match=row.name):
        Settings.from_environment(environ)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "HIPSNET_TOPOLOGY"])
def test_a_missing_variable_is_reported(name: str) -> None:
    environ = Settings(0, 9, "/x/topology.yaml", token=TOKEN).to_environment()
    del environ[name]
    with pytest.raises(InputError, match=f"{name} is not set.*hipsnet run"):
        Settings.from_environment(environ)


@pytest.mark.parametrize("token", ["", TOKEN[:-1]])
def test_a_short_token_is_refused_for_several_ranks(token: str) -> None:
    with pytest.raises(InputError, match=f"HIPSNET_TOKEN: has {len(token)} characters; .* at least 16"):
        Settings(0, 2, "/x/topology.yaml", token=token)
    environ = Settings(0, 2, "/x/topology.yaml", token=TOKEN).to_environment() | {"HIPSNET_TOKEN": token}
    with pytest.raises(InputError, match="HIPSNET_TOKEN"):
        Settings.from_environment(environ)
    assert Settings(0, 1, "/x/topology.yaml", token=token).token == token


def test_a_wrong_token_is_not_printed() -> None:
    with pytest.raises(InputError, match="HIPSNET_TOKEN: found 21 characters") as caught:
        Settings(0, 2, "/x/topology.yaml", token="a secret with a blank")
    assert "secret" not in str(caught.value)


def test_json_has_the_promised_shape(lab: Path) -> None:
    done = rig.hipsnet(
        "run", lab, "--sizes", "1KiB:64KiB:x8", "--check", "--iters", 3, "--warmup", 1, "--json", "-"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["fabric"]["kind"] == "bcube" and document["fabric"]["servers"] == 4
    assert (document["algorithm"], document["transport"], document["world_size"]) == ("auto", "tcp", 4)
    assert [result["bytes"] for result in document["results"]] == [1024, 8192, 65536]
    for result in document["results"]:
        times = result["time_s"]
        assert 0 < times["min"] <= times["median"] <= times["max"]
        assert len(result["times_s"]) == 3
        assert result["dtype"] == "float32" and result["count"] * 4 == result["bytes"]
        assert result["algbw_GBps"] == pytest.approx(result["bytes"] / times["median"] / 1e9)
        assert result["busbw_GBps"] == pytest.approx(result["algbw_GBps"] * 1.5)
        assert result["limit_s"] == pytest.approx(2 * 3 * result["bytes"] * 8 / (4 * 2 * 200e6))
        assert result["limit_ratio"] == pytest.approx(times["median"] / result["limit_s"])
        assert (result["wrong"], result["correct"]) == (0, True)


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_every_type_is_summed_right(lab: Path, dtype: str) -> None:
    done = rig.hipsnet(
        "run", lab, "--size", "30001B", "--dtype", dtype, "--check", "--iters", 2, "--json", "-"
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["dtype"], result["correct"]) == (dtype, True)


@pytest.mark.parametrize("algorithm", ["hips", "ring", "mesh", "ps"])
def test_a_model_is_one_line_of_its_buckets(lab: Path, algorithm: str, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    done = rig.hipsnet(
        "run", lab, "--model", "lenet5", "--algorithm", algorithm, "--check", "--iters", 2, "--json", file
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(file.read_text())["results"]
    assert result["model"] == "lenet5" and sum(result["buckets_bytes"]) == result["bytes"]
    assert result["correct"] is True
    *title, names, _, row = done.stdout.splitlines()
    assert algorithm in title[1] and "lenet5" in title[2]
    assert names.split()[1:4] == ["size", "count", "type"]
    assert row.split()[:3] == [str(result["bytes"]), str(result["count"]), "float32"]


def test_a_wrong_sum_is_found(lab: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.get('RANK') == '2':\n"
        "    from hipsnet.collective.communicator import Communicator\n"
        "    right = Communicator.all_reduce\n"
        "    def wrong(self, array, op='sum', async_op=False):\n"
        "        result = right(self, array, op, async_op)\n"
        "        if array.size == 256:\n"
        "            array[77] += 1\n"
        "        return result\n"
        "    Communicator.all_reduce = wrong\n"
    )
    path = f"{tmp_path}:{ROOT}"
    done = hipsnet("run", lab, "--sizes", "1KiB,2KiB", "--check", "--json", "-", PYTHONPATH=path)
    assert done.returncode == 1
    assert "1 of 2 results are wrong" in done.stderr
    bad, good = json.loads(done.stdout)["results"]
    assert (bad["wrong"], bad["correct"]) == (1, False)
    assert (good["wrong"], good["correct"]) == (0, True)


def test_different_bits_are_not_correct() -> None:
    measurement = Measurement((Case((4,)),), "float32", 2, 0, True)
    reports = [
        {"times_s": [1.0, 4.0], "digests": [5, 5], "wrong": 0, "cpu_s": 0.5, "memory_bytes": 7},
        {"times_s": [3.0, 2.0], "digests": [5, 6], "wrong": 0, "cpu_s": 0.25, "memory_bytes": 9},
    ]
    result = combine(measurement, 0, reports, None, "hips")
    assert result.times_s == (3.0, 4.0)
    assert (result.wrong, result.same_bits, result.correct) == (0, False, False)
    assert (result.cpu_s, result.memory_bytes) == (0.75, 9)


@pytest.mark.parametrize("name", [name for name in ITEM_BYTES if name != "bfloat16"])
@pytest.mark.parametrize("length", [1, 1000, pattern.PERIOD + 17])
def test_the_pattern_finds_what_is_wrong(name: str, length: int) -> None:
    dtype = np.dtype(name)
    vectors = []
    for rank in range(5):
        vector = np.empty(length, dtype)
        pattern.fill(vector, pattern.contribution(rank, length, dtype))
        vectors.append(vector)
    sums = pattern.expected(5, length, dtype)
    total = sum(vectors[1:], vectors[0].copy())
    assert pattern.wrong(total, sums) == 0
    assert pattern.wrong(total - vectors[3], sums) > 0.9 * length
    total[length // 2] += 1
    assert pattern.wrong(total, sums) == 1
    if dtype.kind == "f":
        total[0] = np.nan
        assert pattern.wrong(total, sums) == 1 + (length // 2 != 0)


@pytest.mark.parametrize("has_pauses", [False, True])
def test_the_table_fits_a_hundred_columns(has_pauses: bool) -> None:
    largest = Result(
        case=Case((1_073_741_824,)),
        dtype="bfloat16",
        world_size=64,
        times_s=(59.999_999_9,),
        limit_s=58.999_999_9,
        wrong=12_345,
        same_bits=False,
        cpu_s=1.0,
        memory_bytes=1,
        algorithm="hips/full",
        pauses=JobPauses(12_345, 12_345, 1_234_567, 1_234_567, "s63.p1"),
    )
    table = columns(has_pauses)
    lines = [*heading(table), row(table, largest)]
    assert max(map(len, lines)) <= 100 and len(set(map(len, lines))) == 1
    assert ("12345/12345" in lines[2], "s63.p1" in lines[2]) == (has_pauses, has_pauses)
    assert len(lines[2].split()) == len(table)
    unlimited = dataclasses.replace(largest, limit_s=None, pauses=None)
    assert row(table, unlimited).split().count("-") == (5 if has_pauses else 2)


def test_the_options_of_nccl_tests_are_accepted(lab: Path) -> None:
    options = ("-b", "8", "-e", "2K", "-f", "16", "-n", "3", "-w", "1", "-c", "--json", "-")
    done = rig.hipsnet("run", lab, *options)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [result["bytes"] for result in document["results"]] == [8, 128, 2048]
    assert (document["iterations"], document["warmup"], document["complete"]) == (3, 1, True)
    assert all(result["correct"] for result in document["results"])


def test_a_full_disk_is_named(lab: Path, tmp_path: Path) -> None:
    done = rig.hipsnet("run", lab, "--size", "1K", "-n", "1", "--json", "/dev/full")
    assert (done.returncode, done.stderr) == (
        1, "hipsnet: --json: cannot write /dev/full: No space left on device\n"
    )  # fmt: skip
    for name in ("s00", "s01"):
        (tmp_path / f"{name}.log").symlink_to("/dev/full")
    script = "echo one; echo two >&2"
    logged = hipsnet("run", lab, "--log-dir", tmp_path, "--", "sh", "-c", script)
    assert logged.returncode == 0, logged.stderr
    for name in ("s00", "s01"):
        warning = f"hipsnet: warning: {tmp_path}/{name}.log is incomplete: No space left on device"
        assert logged.stderr.splitlines().count(warning) == 1
    assert sorted((tmp_path / "s11.log").read_text().splitlines()) == ["one", "two"]


def test_help_names_every_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for command in ("run", "schedule"):
        text = rig.hipsnet(command, "--help").stdout
        options = [
            line for line in text.splitlines() if re.search(r" --[a-z]", line) and "--help" not in line
        ]
        assert len(options) > 5
        assert [line for line in options if "[default: " not in line] == []
    assert re.search(
        r"--iters .*measured iterations *\[default: \(10\)\]", rig.hipsnet("run", "--help").stdout
    )


def test_sizes_are_listed() -> None:
    assert listed("64MiB") == (2**26,)
    assert listed("1KiB,3MiB") == (1024, 3 * 2**20)
    assert listed("1KiB:64MiB:x4") == tuple(1024 * 4**i for i in range(9))
    assert listed("1KiB:5KiB:x2") == (1024, 2048, 4096)
    assert count(30001, "float32") == 7500
