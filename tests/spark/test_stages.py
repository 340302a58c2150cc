"""Which operators run in one stage, and in what order stages run: on live executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import running
from tests.spark.streams import KEYS, LATER, numbers, window_totals

from elastream.spark.internals.event_tap import TaskEvent
from elastream.spark.observe.task_events import finished_task, lead_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def deduplicated_counts(spark: SparkSession) -> DataFrame:
    rows = numbers(spark).dropDuplicates(["value"])
    return rows.selectExpr(f"value % {KEYS} key").groupBy("key").count()


def counts_of_a_join(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    left = numbers(spark).withWatermark("timestamp", "30 seconds").alias("early")
    right = numbers(spark).selectExpr(f"value - {LATER} partner", "timestamp at")
    match = f.expr("value = partner and at >= timestamp")
    both = left.join(right.withWatermark("at", "30 seconds"), match)
    return both.groupBy("timestamp").count()


@pytest.mark.parametrize(
    ("shape", "mode"),
    [
        (deduplicated_counts, "update"),
        pytest.param(counts_of_a_join, "append", marks=pytest.mark.slow),
        pytest.param(window_totals, "append", marks=pytest.mark.slow),
    ],
)
def test_stages_run_one_after_the_other_as_the_graph_has_them(
    spark: SparkSession, shape: Callable[[SparkSession], DataFrame], mode: str
) -> None:
    frame = shape(spark)
    events: dict[int, list[TaskEvent]] = {}
    with running(frame, mode=mode, sink="noop") as run:
        watched, finish = run.watched, run.watched.finish

        def finished(batch: int, event: TaskEvent) -> None:
            events.setdefault(batch, []).append(event)
            finish(batch, event)

        watched.finish = finished  # type: ignore[method-assign]
        run.pass_batches(3)
        graph, operators, last = watched.graph, watched.operators, run.batches[-1].batch
        names = watched._metric_names
    ranked = sorted(operators, key=lambda operator: operator.rank)
    tasks = [(event, finished_task(event, names)) for event in events[last]]
    accumulators = sorted({writer for _, task in tasks for writer in task.writers})
    leads = lead_of(operators)
    lead_of_writer = {a: leads[o.id] for a, o in zip(accumulators, ranked, strict=True)}
    stages: dict[int, set[int]] = {}
    for event, task in tasks:
        for writer in task.writers:
            stages.setdefault(lead_of_writer[writer], set()).add(event.stage)
    assert all(len(each) == 1 for each in stages.values()), "an operator runs in one stage"
    assert len(set.union(*stages.values())) == len(graph.feeds) == 2
    ((first, second),) = ((one, other) for one, other in graph.feeds.items() if other is not None)
    assert graph.feeds[second] is None
    times: dict[int, list[TaskEvent]] = {event.stage: [] for event, _ in tasks}
    for event, _ in tasks:
        times[event.stage].append(event)
    (before,), (after,) = stages[first], stages[second]
    ended = max(event.times.finished_ms for event in times[before])
    assert ended <= min(event.times.submitted_ms for event in times[after])
