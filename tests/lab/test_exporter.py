# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a lab; the queries of dashboard and alerts return what was on the wire."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.rig import REPOSITORY, Lab, command_line, run
from tests.lab.test_top import pause

MONITORING = REPOSITORY / "docs" / "monitoring"
CONFIG = """\
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}
rule_files: [{rules}]
scrape_configs: [{{job_name: hipsnet, static_configs: [{{targets: ["{target}"]}}]}}]
"""


@pytest.fixture(autouse=True)
def programs() -> None:
    for name in ("prometheus", "promtool"):
        if shutil.which(name) is None:
            pytest.skip(f"{name}: Debian's package prometheus")


@contextmanager
def running(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A program that runs for the duration of the block and exits with 0."""
    with subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


@pytest.fixture
def exported(make_lab: Callable[..., Lab]) -> Iterator[tuple[Lab, str]]:
    """A lab, and the address of its exporter."""
    lab = make_lab(pfc={"priorities": [3]})
    lab.provision()
    with running(*command_line("exporter", lab.file, "--port", "0")) as process:
        assert process.stdout is not None
        yield lab, process.stdout.readline().split("//")[1].split("/")[0]
    assert process.returncode == 0


class Prometheus:
    """A Prometheus server with its data in a temporary folder."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the result of an instant query."""
        answer = json.loads(
            get(f"http://{self._address}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
        )
        assert answer["status"] == "success"
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def value(self, query: str) -> float | None:
        """The single number the query returns; None if it returns no or several series."""
        found = self.ask(query)
        return float(found[0]["value"][1]) if len(found) == 1 else None

    def until(self, query: str, expected: float) -> None:
        """Wait until the query returns the expected number."""
        end = time.monotonic() + 20
        while (found := self.value(query)) != expected:
            assert time.monotonic() < end, f"{query}: expected {expected}, found {found}"
            time.sleep(0.2)


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[Prometheus]:
    address = f"127.0.0.1:{free_port()}"
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(rules=MONITORING / "alerts.yaml", target=target))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    with running(*command, f"--web.listen-address={address}", "--log.level=error"):
        end = time.monotonic() + 20
        while True:
            try:
                get(f"http://{address}/-/ready")
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.1)
        yield Prometheus(address)


def test_prometheus_has_what_was_on_the_wire(exported: tuple[Lab, str], tmp_path: Path) -> None:
    lab, target = exported
    with scraping(target, tmp_path) as prometheus:
        received = 'hipsnet_pfc_frames_total{server="s01", port="p0", priority="3", direction="rx"}'
        prometheus.until(received, 0)
        sent = pause(lab, "l0g0", "p1", 1 << 3, 31)
        prometheus.until(received, sent)
        prometheus.until(
            'hipsnet_pfc_frames_total{server="l0g0", port="p1", priority="3", direction="tx"}', sent
        )
        prometheus.until("hipsnet_drift", 0)
        assert prometheus.value("count(hipsnet_port_up == 1)") == 16
        assert prometheus.value("sum(hipsnet_lossless)") == 16
        check_dashboard(prometheus)
        run("ip", "-n", lab.namespace("l0g0"), "link", "set", "p1", "down")
        prometheus.until('count(ALERTS{alertname="HipsnetPortDown"})', 2)


def check_dashboard(prometheus: Prometheus) -> None:
    """Every query of the dashboard is valid and returns data where counters exist."""
    board = json.loads((MONITORING / "dashboard.json").read_text())
    # Bridges do not count the first two; this lab loses no frames.
    uncounted = ("pause_seconds", "ecn_marked", "frames lost")
    for panel in board["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$fabric", ".*").replace("$__rate_interval", "5s")
            found = prometheus.ask(query)
            assert found or any(word in query for word in uncounted) or "> 0" in query, query


def test_the_format_passes_promtool(exported: tuple[Lab, str]) -> None:
    _, target = exported
    text = get(f"http://{target}/metrics")
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert get(f"http://{target}/metrics").count("# HELP hipsnet_") == text.count("# HELP hipsnet_") > 8


PORT = 'fabric="f", server="s0", port="p0", priority="3"'
LOSS, LOSSLESS = f"hipsnet_dropped_frames_total{{{PORT}}}", f"hipsnet_lossless{{{PORT}}}"
ALERTS = {
    "HipsnetPfcStorm": {f"hipsnet_pfc_storm{{{PORT}}}": "1+0x20"},
    "HipsnetPfcStorm, by time": {f'hipsnet_pfc_pause_seconds_total{{{PORT}, direction="rx"}}': "0+15x20"},
    "HipsnetLosslessLoss": {LOSS: "0+2x20", LOSSLESS: "1+0x20"},
    "HipsnetPortDown": {'hipsnet_port_up{fabric="f", server="s0", port="p0"}': "0+0x20"},
    "HipsnetSoftSwitchDown": {'hipsnet_soft_switch_up{fabric="f"}': "0+0x20"},
    "HipsnetDelayLineDown": {'hipsnet_delay_line_up{fabric="f"}': "0+0x20"},
    "HipsnetDrift": {'hipsnet_drift{fabric="f"}': "3+0x20"},
}  # fmt: skip
QUIET = {
    "HipsnetPfcStorm": {
        f"hipsnet_pfc_storm{{{PORT}}}": "0+0x20",
        f'hipsnet_pfc_pause_seconds_total{{{PORT}, direction="tx"}}': "0+15x20",
        f'hipsnet_pfc_pause_seconds_total{{{PORT}, direction="rx"}}': "0+14x20",
    },
    "HipsnetLosslessLoss": {LOSS: "0+2x20", LOSSLESS: "0+0x20"},
    "HipsnetPortDown": {'hipsnet_port_up{fabric="f", server="s0", port="p0"}': "1+0x20"},
    "HipsnetSoftSwitchDown": {'hipsnet_soft_switch_up{fabric="f"}': "1+0x20"},
    "HipsnetDelayLineDown": {'hipsnet_delay_line_up{fabric="f"}': "1+0x20"},
    "HipsnetDrift": {'hipsnet_drift{fabric="f"}': "0+0x20"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("alert", "series", "fires"),
    [*((name, given, 1) for name, given in ALERTS.items()), *((name, given, 0) for name, given in QUIET.items())],
)  # fmt: skip
def test_an_alert_fires_when_it_should(
    alert: str, series: dict[str, str], fires: int, tmp_path: Path
) -> None:
    name = alert.split(",")[0]
    test = {
        "rule_files": [str(MONITORING / "alerts.yaml")],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": key, "values": values} for key, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)',
                        "eval_time": "4m",
                        "exp_samples": [{"labels": "{}", "value": fires}],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(test))
    run("promtool", "test", "rules", str(file))
