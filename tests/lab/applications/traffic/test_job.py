"""The traffic monitor on real executors: placed, measured, and equal to a plain computation."""

from __future__ import annotations

import json
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import PATIENCE_S

from elastream import TaskId
from elastream.cli.main import main
from elastream.resilience import Measured, measure
from elastream.resilience.spark.watching import batches_of, watching
from elastream.spark.sessions.embedded_cluster import scratch_folder
from elastream_lab.applications.traffic.aggregations import AGGREGATIONS, Aggregation, monitored
from elastream_lab.applications.traffic.job import TrafficJob, results, warmed
from elastream_lab.applications.traffic.made_packets import MadeTraffic, make_packets
from elastream_lab.applications.traffic.packets import record_substreams
from elastream_lab.applications.traffic.placed_pairs import Placed, placed_pairs
from elastream_lab.harness.replay import replayed_batch
from elastream_lab.harness.replaying import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream_lab.harness.recording import Recording

pytestmark = pytest.mark.slow  # resilience/spark measures and places queries in every run

SUBSTREAMS = 2
PAIRS = SUBSTREAMS * 2 * 2
"""Two aggregations of two partitions each."""
Result = tuple[str, int, int, str, str | None, int, float]
"""Aggregation, begin and end of the window in seconds, source, destination, packets, mean size."""


@dataclass(frozen=True)
class Ran:
    monitor: TrafficJob
    nodes: list[int]
    placed: Placed
    executors: list[str]
    """Of each node."""
    where: list[str]
    """Where the last batch of the replay left each pair."""
    measured: Measured


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Ran:
    """Two and a half minutes of traffic in a few seconds, the pairs placed on the way."""
    monitor = made_monitor(spark, AGGREGATIONS[::2], partitions=2)
    nodes = list(islice(cycle([1, 0, 0]), PAIRS))
    with warmed(spark, monitor) as (replay, queries):
        with replay.fed(monitor.lead, every_s=monitor.trigger_s):
            placed = placed_pairs(queries, nodes, timeout_s=PATIENCE_S)
        with watching(queries) as seen:
            executors = [entry.id for entry in seen.internals.executors()]
            last: dict[TaskId, str] = {}
            batches_of(
                seen.monitor,
                lambda batch: last.update({task.task: task.executor for task in batch.tasks}),
            )
            with opened_by_and_by(replay):
                measured = measure(queries, batches=3, skip=0, timeout_s=PATIENCE_S)
            replay.wait(lambda: replay.has_read_all)
            where = [last[task] for task in seen.tasks]
    return Ran(monitor, nodes, placed, executors, where, measured)


@contextmanager
def opened_by_and_by(replay: Replay) -> Iterator[None]:
    """Give a few packets at a time, as soon as those before are counted; in the end, the rest.

    A clock would have given all of them within two batches of a slow machine.
    """
    done = threading.Event()
    rows = [feed.recording.rows for feed in replay.feeds]

    def feed() -> None:
        while not done.is_set():
            replay.open([min(lead + 8, end) for lead, end in zip(replay.lead, rows, strict=True)])
            replay.wait(lambda: replay.rows_done == sum(replay.lead))

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        done.set()
        feeder.join()
    replay.open(rows)


def made_monitor(
    spark: SparkSession, aggregations: tuple[Aggregation, ...], *, partitions: int
) -> TrafficJob:
    folder = Path(tempfile.mkdtemp(dir=scratch_folder(spark)))
    traffic = MadeTraffic(span_s=150, packets_a_second=6, substreams=SUBSTREAMS, sources=8)
    packets = make_packets(traffic)
    return TrafficJob(
        record_substreams(packets, folder, substreams=SUBSTREAMS, replay_s=10),
        folder,
        partitions=partitions,
        aggregations=aggregations,
        service_us=50.0,
        trigger_s=0.5,
        lead_s=3.0,
    )


def test_every_pair_is_placed_where_the_plan_says_and_stays_there(ran: Ran) -> None:
    assert ran.placed.holds, str(ran.placed)
    assert ran.placed.pairs == len(ran.nodes)
    assert ran.where == [ran.executors[node] for node in ran.nodes]


def test_what_the_queries_reported_equals_the_batch_job(spark: SparkSession, ran: Ran) -> None:
    assert results(spark, ran.monitor).count() > 500
    assert ran.monitor.wrong(spark) == 0


def test_all_aggregations_together_are_exact(spark: SparkSession) -> None:
    monitor = made_monitor(spark, AGGREGATIONS, partitions=1)
    with warmed(spark, monitor) as (replay, queries):
        with watching(queries) as seen:
            assert len(seen.tasks) == SUBSTREAMS * len(AGGREGATIONS), "each in a task of its own"
        replay.begin(lead_s=monitor.lead_s)
        replay.wait(lambda: replay.has_read_all)
    assert monitor.wrong(spark) == 0
    rows = {row["aggregation"] for row in results(spark, monitor).select("aggregation").collect()}
    assert rows == {aggregation.name for aggregation in AGGREGATIONS}


def test_the_batch_job_equals_a_computation_in_plain_python(spark: SparkSession, ran: Ran) -> None:
    for recording in ran.monitor.recordings:
        packets = replayed_batch(spark, recording, until=recording.rows)
        rows = monitored(packets).selectExpr(
            "aggregation",
            "unix_seconds(begin)",
            "unix_seconds(end)",
            "source",
            "destination",
            "packets",
            "mean_size",
        )
        assert {tuple(row) for row in rows.collect()} == plain_results(recording)


def test_a_trial_run_measures_every_pair(ran: Ran) -> None:
    graph = ran.measured.graph
    assert graph.inputs == ("substream_0", "substream_1")
    assert len(graph.operators) == len(ran.nodes)
    # of a few packets a batch, what a row costs may all be within what any batch costs
    assert all(operator.cost > 0 or operator.fixed > 0 for operator in graph.operators)
    assert any(operator.selectivity for operator in graph.operators)
    assert [operator.inputs for operator in graph.operators] == [
        (f"substream_{number}",) for number in range(SUBSTREAMS) for _ in range(PAIRS // SUBSTREAMS)
    ]
    # a core each; reading and parsing take of it at any rates, or for every row
    assert len(ran.measured.capacity) == 2
    assert all(0 < cores <= 1 for cores in ran.measured.capacity)
    assert min(ran.measured.capacity) < 1 or any(map(any, ran.measured.unplaced))
    assert all(rate > 0 for rate in ran.measured.rates)


def test_what_was_measured_is_a_problem_that_can_be_planned(
    ran: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(ran.measured.fields(), allow_nan=False))
    assert main(["plan", "resilient", "--method", "rod", str(file)]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["allocation"]) == len(ran.nodes)
    assert set(plan["allocation"]) == {0, 1}
    assert plan["variables"] == list(ran.measured.graph.inputs)


def plain_results(recording: Recording) -> set[Result]:
    """All results of a sub-stream, packet by packet."""
    sizes: dict[tuple[Aggregation, int, str, str | None], list[int]] = defaultdict(list)
    for part in recording.slices(0, recording.rows):
        for packet in part.to_pylist():
            at_s = int(packet["time"].timestamp())
            for aggregation in AGGREGATIONS:
                latest = at_s - at_s % aggregation.slide_s
                for begins in range(latest, at_s - aggregation.length_s, -aggregation.slide_s):
                    for to in (packet["destination"], None):
                        sizes[aggregation, begins, packet["source"], to].append(packet["size"])
    return {
        (a.name, begins, begins + a.length_s, source, to, len(each), sum(each) / len(each))
        for (a, begins, source, to), each in sizes.items()
    }
