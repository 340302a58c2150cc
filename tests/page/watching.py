"""A run that is watched: the real loop on a simulated cluster, counted as the page counts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parsed_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parsed

from elastream import Policy
from elastream.core.decision_log import LogEntry, entry_of
from elastream.core.decisions import Decision
from elastream.core.scene_lines import SceneEncoder, laid_over, whole_record
from elastream.core.scenes import Scene
from elastream.jsonl import lines_of
from elastream.page.counts import Counts
from elastream.page.metrics import metrics_text
from elastream.testing import SimulatedCluster, SimulatedLoop, simulated

__all__ = ["Watched", "families", "read", "values"]

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


class Watched:
    """Hears all that a loop shows."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.seen: dict[str, Any] | None = None
        self._encoder = SceneEncoder()

    def hear(self, entry: LogEntry) -> None:
        if isinstance(entry, Decision):
            self.counts.take_decision(entry)
        elif isinstance(entry, Scene):
            record, _ = self._encoder.encode(entry)
            self.counts.take_batches(record.get("batches", []))
            self.seen = whole_record(entry)

    def loop(
        self, cluster: SimulatedCluster, policy: Policy, log: Path | None = None
    ) -> SimulatedLoop:
        """The loop of the cluster, which this one hears."""
        loop = simulated(cluster, policy, log=log)
        loop.add_log(self.hear)
        return loop

    @property
    def values(self) -> dict[tuple[str, ...], float]:
        """The samples that are exposed now, by name and values of labels in the labels' order."""
        return values(self.counts, self.seen)


def read(log: Path) -> Watched:
    """What the page makes of a log file."""
    watched = Watched()
    for where, line in lines_of(log):
        entry = entry_of(where, line)
        if isinstance(entry, Decision):
            watched.counts.take_decision(entry)
        elif isinstance(entry, dict):
            watched.counts.take_batches(entry.get("batches", []))
            watched.seen = laid_over(watched.seen or {}, entry)
    return watched


def families(counts: Counts, seen: dict[str, Any] | None) -> dict[str, Metric]:
    """The metrics as Prometheus' own parser reads them, in both formats alike."""
    plain, plain_type = metrics_text(counts, seen)
    fresh, fresh_type = metrics_text(counts, seen, OPENMETRICS)
    assert plain_type.startswith("text/plain; version=0.0.4")
    assert fresh_type.startswith("application/openmetrics-text; version=1.0.0")
    found = {each.name: each for each in parsed(plain.decode())}
    strict = parsed_openmetrics(fresh.decode())  # type: ignore[no-untyped-call]
    again = {each.name: each for each in strict}
    assert {name: (each.type, each.samples) for name, each in found.items()} == {
        name: (each.type, each.samples) for name, each in again.items()
    }
    return found


def values(counts: Counts, seen: dict[str, Any] | None) -> dict[tuple[str, ...], float]:
    """The samples by name and values of labels, in the order of the labels' names."""
    samples = [sample for each in families(counts, seen).values() for sample in each.samples]
    found = {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for sample in samples
    }
    assert len(found) == len(samples), "no sample comes twice"
    return found
