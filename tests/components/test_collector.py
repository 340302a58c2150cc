"""Spans of a running program arrive at a real collector of OpenTelemetry (``make collector``)."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.components.broker import free_ports
from tests.components.parts import FOLDER
from tests.launch.programs import by_elastream, written
from tests.page.runs import begun
from tests.spark.running_query import until

from elastream import read_decisions
from elastream.page.spans import otlp_spans

COLLECTOR = FOLDER / "bin" / "otelcol"

pytest.importorskip("opentelemetry.sdk")
pytestmark = pytest.mark.skipif(
    not COLLECTOR.exists(), reason="OpenTelemetry's collector not built; make collector does that"
)

PROGRAM = """
import time
from pyspark.sql import SparkSession

builder = SparkSession.builder.appName("orders")
spark = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
counts = rows.groupBy((rows.value % 7).alias("key")).count().writeStream
query = counts.outputMode("complete").format("noop").queryName("counts").start()
time.sleep(5)
end = time.monotonic() + 120
import elastream.attachment.application as own  # what the program's loop has logged
while time.monotonic() < end:
    (application,) = own.APPLICATIONS.values()
    if "done" in [each.kind for each in application.recent]:
        break
    time.sleep(0.2)
spark.stop()
"""


class Collector:
    """A collector that writes what it takes to a file."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.file = folder / "spans.jsonl"
        self._settings = folder / "collector.json"
        self._log = folder / "collector.log"
        traces = {"receivers": ["otlp"], "exporters": ["file"]}
        http = {"endpoint": f"127.0.0.1:{self.port}"}
        settings = {
            "receivers": {"otlp": {"protocols": {"http": http}}},
            "exporters": {"file": {"path": str(self.file)}},
            "service": {
                "pipelines": {"traces": traces},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }
        self._settings.write_text(json.dumps(settings))  # which is YAML too

    @property
    def environ(self) -> dict[str, str]:
        """What points a program to it."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}"}

    def spans(self) -> list[dict[str, Any]]:
        """What has arrived: each span with its attributes and those of its resource."""
        found = []
        for line in self.file.read_text().splitlines() if self.file.exists() else ():
            for resource in json.loads(line)["resourceSpans"]:
                about = values(resource["resource"])
                for scope in resource["scopeSpans"]:
                    found += [
                        {**span, "about": about, "values": values(span)} for span in scope["spans"]
                    ]
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._log.open("w") as log:
            process = subprocess.Popen(
                [str(COLLECTOR), "--config", str(self._settings)], stdout=log, stderr=log
            )
        try:
            until(lambda: "Everything is ready" in self._log.read_text(), "the collector")
            yield
        finally:
            process.terminate()
            process.wait(30)


def values(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        each["key"]: next(iter(each["value"].values())) for each in fields.get("attributes", ())
    }


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    made = Collector(tmp_path)
    with made.running():
        yield made


def test_a_change_of_a_program_arrives_with_its_phases(
    collector: Collector, tmp_path: Path
) -> None:
    log = tmp_path / "decisions.jsonl"
    ran = by_elastream(
        written(tmp_path, PROGRAM),
        options=f"--log {log} --spans --goal tests.launch.goals:eager",
        environ={**collector.environ, "OTEL_SERVICE_NAME": "orders-team"},
    )
    assert ran.returncode == 0, ran.stderr
    until(lambda: bool(collector.spans()), "spans")
    spans = collector.spans()
    assert {span["about"]["service.name"] for span in spans} == {"orders-team"}
    assert {span["about"]["elastream.application"] for span in spans} == {"orders"}
    change = next(span for span in spans if not span.get("parentSpanId"))
    done = next(each for each in read_decisions(log) if each.kind == "done")
    assert change["name"] == "scale-out"
    assert change["values"]["elastream.outcome"] == "done"
    assert int(change["values"]["elastream.tasks_moved"]) == done.figures["tasks_moved"]
    phases = [span for span in spans if span.get("parentSpanId") == change["spanId"]]
    assert {"growing", "planning"} <= {span["name"] for span in phases}


def test_a_loop_runs_on_where_nobody_takes_its_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in Collector(tmp_path).environ.items():
        monkeypatch.setenv(name, value)
    writer = otlp_spans("orders")
    cluster, loop = begun()
    loop.add_log(writer.take)
    with loop:
        cluster.advance(90)
    assert loop.of("done")
    began = time.monotonic()
    writer.close()
    assert time.monotonic() - began < 30
