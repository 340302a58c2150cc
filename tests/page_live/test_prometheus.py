"""A real Prometheus scrapes a loop: it reads what is reported, and its tools do not object.

Its alerts arrive at a real Alertmanager. It needs ``prometheus``, ``promtool``, Alertmanager and
``amtool`` (Debian: the packages ``prometheus`` and ``prometheus-alertmanager``).
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode

import pytest
from tests.documentation import ROOT
from tests.page.watching import Watched

from elastream import Policy, Timeouts
from elastream.page.metrics import metrics_text
from elastream.testing import SimulatedCluster, SimulatedLoop, even_workload, rate_steps

PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager", "amtool")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]

pytestmark = [
    pytest.mark.components,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

FOLDER = ROOT / "docs" / "dashboards"
RULES = FOLDER / "elastream-alerts.yml"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "elastream.json").read_text())

PATIENCE_S = 60.0
SECONDS_A_SCRAPE = 10.0
"""How far the simulated time goes on when somebody looks."""
NAMES = ('one "quoted"', "zwei\n\\ Zeilen")


class Page:
    """Serves the metrics of a simulated loop, whose time goes on with every look at it."""

    def __init__(self) -> None:
        self.watched = Watched()
        self._stopped = False
        load = rate_steps({0: 500, 60: 1200})
        self.cluster = SimulatedCluster([even_workload(8, load, name=name) for name in NAMES])
        policy = Policy(max_executors=4, patience=2, cooldown_s=5, timeouts=Timeouts(smoothing_s=1))
        self.loop: SimulatedLoop = self.watched.loop(self.cluster, policy)
        self._lock = threading.Lock()

    def look(self, accept: str = "") -> tuple[bytes, str]:
        with self._lock:
            if not self._stopped:
                self.cluster.advance(SECONDS_A_SCRAPE)
            return metrics_text(self.watched.counts, self.watched.seen, accept)

    def kill(self) -> None:
        """Let an executor die."""
        with self._lock:
            self.cluster.kill(self.loop.state.executors[0].id)

    def stop(self) -> None:
        """Let nothing change any more, also where somebody is looking just now."""
        with self._lock:
            self._stopped = True


@contextmanager
def served(page: Page) -> Iterator[int]:
    """Serve the page on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text, content_type = page.look(self.headers.get("Accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that runs."""

    port: int

    def get(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}{path}?{urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            fields = json.load(answer)
        assert fields["status"] == "success"
        return fields["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float | None:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def awaited(what: str, found: Callable[[], Any], log: Path) -> Any:
    """Return what is found as soon as it is something."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        try:
            if value := found():
                return value
        except (URLError, ConnectionError):
            pass  # it is not up yet
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come in {PATIENCE_S:.0f} s:\n{log.read_text()}")


@contextmanager
def program(command: list[str], log: Path) -> Iterator[None]:
    """Run a program of others; what it says goes to the log."""
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def prometheus(target: int, folder: Path, alerts: int | None = None) -> Iterator[Prometheus]:
    """Run one that scrapes the target every second, has the rules, and sends alerts to a port."""
    configuration, log, port = folder / "prometheus.yml", folder / "log", free_port()
    scrape = {"job_name": "elastream", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    settings: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [scrape],
    }
    if alerts is not None:
        receiver = {"static_configs": [{"targets": [f"127.0.0.1:{alerts}"]}]}
        settings["alerting"] = {"alertmanagers": [receiver]}
    configuration.write_text(json.dumps(settings))  # which is YAML too
    command = [
        "prometheus",
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with program(command, log):
        running = Prometheus(port)
        awaited("Prometheus", lambda: running.query("vector(1)"), log)
        yield running


@contextmanager
def alertmanager(folder: Path) -> Iterator[int]:
    """Run one that sends nothing on; its port."""
    configuration, log, port = folder / "alertmanager.yml", folder / "alertmanager.log", free_port()
    settings = {"route": {"receiver": "nowhere"}, "receivers": [{"name": "nowhere"}]}
    configuration.write_text(json.dumps(settings))
    command = [
        "prometheus-alertmanager",
        f"--config.file={configuration}",
        f"--storage.path={folder / 'alerts'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with program(command, log):
        awaited("Alertmanager", lambda: alerts_at(port) is not None, log)
        yield port


def alerts_at(port: int) -> dict[str, dict[str, Any]]:
    """What amtool shows of the alerts there, by name."""
    command = ["amtool", f"--alertmanager.url=http://127.0.0.1:{port}", "alert", "--output=json"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise ConnectionError(run.stderr)
    return {each["labels"]["alertname"]: each for each in json.loads(run.stdout or "[]")}


@dataclass(frozen=True)
class Scraped:
    """A run that has come to rest, and the Prometheus that has seen it."""

    page: Page
    prometheus: Prometheus


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A run that is scraped until a change is done, and then once more as it is."""
    folder, page = tmp_path_factory.mktemp("prometheus"), Page()
    with page.loop, served(page) as target, prometheus(target, folder) as running:
        ended = 'sum(elastream_change_duration_seconds_count{outcome="done"}) > 0'
        awaited("a change", lambda: running.query(ended), folder / "log")
        page.stop()
        rows = sum(query.rows for query in page.watched.counts.now.queries.values())
        shown = page.watched.values["elastream_loop_seen_timestamp_seconds",]
        awaited(
            "the last scrape",
            lambda: (
                running.value("sum(elastream_rows_total)") == rows
                and running.value("elastream_loop_seen_timestamp_seconds") == shown
            ),
            folder / "log",
        )
        yield Scraped(page, running)


# Prometheus


def test_every_sample_is_in_prometheus_as_it_is_on_the_page(scraped: Scraped) -> None:
    found = {}
    for each in scraped.prometheus.query('{__name__=~"elastream_.+"}'):
        labels = {name: text for name, text in each["metric"].items() if name != "__name__"}
        assert labels.pop("job") == "elastream"
        assert labels.pop("instance").startswith("127.0.0.1:")
        name = each["metric"]["__name__"]
        found[(name, *(labels[label] for label in sorted(labels)))] = float(each["value"][1])
    assert found == scraped.page.watched.values


def test_figures_in_prometheus_are_those_of_the_loop(scraped: Scraped) -> None:
    value, state = scraped.prometheus.value, scraped.page.loop.state
    assert value("elastream_executors") == len(state.executors) > 2
    assert value("sum(elastream_executor_partitions)") == 16
    held = sum(round(load.state_bytes) for _, load in state.observed.tasks())
    assert value("sum(elastream_executor_state_bytes)") == held
    decided = len(scraped.page.loop.decisions)
    assert value("sum(elastream_decisions_total)") == decided
    (done,) = scraped.page.loop.of("done")
    assert value("sum(elastream_moved_bytes_total)") == done.figures["state_bytes_moved"] > 0


def test_queries_keep_their_names(scraped: Scraped) -> None:
    names = scraped.prometheus.get("/api/v1/label/query/values")
    assert sorted(names) == sorted(NAMES)


def test_nothing_was_refused(scraped: Scraped) -> None:
    (target,) = scraped.prometheus.get("/api/v1/targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_the_rules_are_evaluated(scraped: Scraped) -> None:
    (group,) = scraped.prometheus.get("/api/v1/rules")["groups"]
    assert [rule for rule in group["rules"] if rule["health"] != "ok"] == []
    states = {rule["name"]: rule["state"] for rule in group["rules"]}
    assert states.pop("ElastreamLoopSilent") != "inactive", "the simulated time is long ago"
    assert "firing" not in states.values()


GRAFANA = {
    "$__rate_interval": "1m",
    "$__range_s": "3600",
    "$__range": "1h",
    '"$job"': '".*"',
    '"$instance"': '".*"',
    '"$query"': '".*"',
}


def asked() -> Iterator[str]:
    """Every expression of the dashboard, as Grafana would ask it."""
    targets = [each for panel in DASHBOARD["panels"] for each in panel.get("targets", ())]
    changes = [each for each in DASHBOARD["annotations"]["list"] if "expr" in each]
    for each in (*targets, *changes):
        expression: str = each["expr"]
        for name, text in GRAFANA.items():
            expression = expression.replace(name, text)
        assert "$" not in expression
        yield expression


def test_every_panel_of_the_dashboard_has_something_to_show(scraped: Scraped) -> None:
    empty = [expression for expression in asked() if not scraped.prometheus.query(expression)]
    assert [re.sub(r"\{.*", "", each) for each in empty] == ["elastream_change_under_way_seconds"]


# Alertmanager


def test_an_executor_that_is_lost_is_an_alert_at_alertmanager(tmp_path: Path) -> None:
    page = Page()
    with (
        page.loop,
        served(page) as target,
        alertmanager(tmp_path) as port,
        prometheus(target, tmp_path, alerts=port) as running,
    ):
        counted = "elastream_executors_lost_total"
        awaited("a scrape", lambda: running.value(counted) is not None, tmp_path / "log")
        page.kill()
        arrived = awaited(
            "the alert",
            lambda: alerts_at(port).get("ElastreamExecutorLost"),
            tmp_path / "alertmanager.log",
        )
    assert arrived["labels"]["severity"] == "warning"
    assert arrived["labels"]["job"] == "elastream"
    summary = f"An executor of {arrived['labels']['instance']} was lost."
    assert arrived["annotations"]["summary"] == summary


# Promtool


def promtool(*arguments: str, given: bytes | None = None) -> str:
    run = subprocess.run(["promtool", *arguments], input=given, capture_output=True)
    said = (run.stdout + run.stderr).decode()
    assert run.returncode == 0, said
    return said


def test_promtool_has_nothing_to_say_about_the_metrics() -> None:
    page = Page()
    with page.loop:
        for _ in range(20):
            text, _ = page.look()
    assert promtool("check", "metrics", given=text) == ""


def test_promtool_takes_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(RULES))


CALM = {
    "up": "1x60",
    "elastream_loop_attached": "1x60",
    'elastream_guard_active{guard="paused"}': "0x60",
    "elastream_warnings": "0x60",
    "elastream_loop_seen_timestamp_seconds": "0+60x60",
    "elastream_loop_failures_total": "0x60",
    "elastream_stuck_calls_total": "0x60",
    "elastream_events_lost_total": "0x60",
    "elastream_executors_lost_total": "0x60",
    "elastream_executors": "3x60",
    "elastream_executors_max": "4x60",
    "elastream_utilisation_ratio": "0.7x60",
    "elastream_utilisation_high_ratio": "0.8x60",
    "elastream_homeless_partitions": "0x60",
    'elastream_backlog_rows{query="q"}': "0+6000x60",
    'elastream_arriving_rows_per_second{query="q"}': "1000x60",
    'elastream_moves_asked_again_total{query="q"}': "0+1x60",
    'elastream_change_under_way_seconds{kind="move"}': "10x60",
    'elastream_change_duration_seconds_count{kind="move",outcome="abandoned"}': "0x30 1x30",
    'elastream_change_duration_seconds_count{kind="move",outcome="done"}': "0+1x60",
}
"""What is reported in an hour in which all is well, a value a minute."""

ALARMING = {
    "ElastreamDown": {"up": "0x60"},
    "ElastreamLoopFailed": {"elastream_loop_failures_total": "0x55 1x5"},
    "ElastreamLoopSilent": {"elastream_loop_seen_timestamp_seconds": "1800x60"},
    "ElastreamLoopLetGo": {"elastream_loop_attached": "0x60"},
    "ElastreamMemory": {"elastream_warnings": "1x60"},
    "ElastreamPaused": {'elastream_guard_active{guard="paused"}': "1x60"},
    "ElastreamCallStuck": {"elastream_stuck_calls_total": "0x55 1x5"},
    "ElastreamEventsLost": {"elastream_events_lost_total": "0x55 100x5"},
    "ElastreamBacklogGrows": {"elastream_executors": "4x60"},
    "ElastreamUtilisationHigh": {"elastream_utilisation_ratio": "0.9x60"},
    "ElastreamExecutorLost": {"elastream_executors_lost_total": "0x55 1x5"},
    "ElastreamPartitionsHomeless": {"elastream_homeless_partitions": "4x60"},
    "ElastreamChangeTakesLong": {
        'elastream_change_under_way_seconds{kind="move"}': "0+60x60",
    },
    "ElastreamChangesAbandoned": {
        'elastream_change_duration_seconds_count{kind="move",outcome="abandoned"}': "0x30 3x30",
    },
    "ElastreamMovesDoNotHold": {'elastream_moves_asked_again_total{query="q"}': "0+5x60"},
}
"""What is reported otherwise where an alert shall fire."""


def rule_test(fields: dict[str, str], firing: list[str]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": with_origin(name), "values": fields[name]} for name in fields],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "59m",
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing
                ],
            }
        ],
    }


def with_origin(series: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    origin = 'job="elastream",instance="a"'
    return f"{name}{{{origin}{',' * bool(labels)}{labels}}}"


def test_an_alert_fires_where_its_reason_is_there_and_at_no_other_time(tmp_path: Path) -> None:
    assert set(ALARMING) == set(re.findall(r"alert: (\w+)", RULES.read_text()))
    tests = [rule_test(CALM, [])]
    tests += [rule_test({**CALM, **entry}, [alert]) for alert, entry in ALARMING.items()]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", str(file))
