from __future__ import annotations

import json

import pytest

from elastream.model.errors import SparkError
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.studies.resilience.on_spark import replayed_figures
from elastream_lab.studies.resilience.replays import Replayed, SparkLatency, batch_figures


def batch(
    finished_ms: int, duration_ms: float, *, rows: int = 5, **run_ms: float
) -> BatchObservation:
    tasks = tuple(
        TaskObservation(TaskId("q", 0, number), executor, ms, rows, 0, 0)
        for number, (executor, ms) in enumerate(run_ms.items())
    )
    return BatchObservation("q", "run", 0, duration_ms, rows, None, finished_ms, None, tasks)


def test_the_worst_utilisation_is_of_the_busiest_executor_in_the_replay_alone() -> None:
    seen = [
        batch(900, 500, a=9000),
        batch(1500, 400, a=100, b=300),
        batch(3000, 800, a=200, b=500),
        batch(2500, 50, rows=0, a=1000),
    ]
    worst, durations = batch_figures(seen, 1000, came_in_ms=1600, executors=["a", "b", "idle"])
    assert worst == pytest.approx(800 / 1600)
    assert durations == [400, 800]


def test_a_replay_without_batches_is_an_error() -> None:
    with pytest.raises(SparkError, match="no batch of the replay"):
        batch_figures([batch(900, 500, a=1)], 1000, came_in_ms=1600, executors=["a"])


@pytest.mark.parametrize(("rod_ms", "holds"), [(900.0, True), (1600.0, False)])
def test_the_figure_tells_means_and_spread_and_whether_rod_is_lowest(
    rod_ms: float, holds: bool
) -> None:
    found = [
        Replayed(method, repeat, 0.5, p99 + 200 * repeat, 800, 3000)
        for method, p99 in (("llf", 1500.0), ("rod", rod_ms))
        for repeat in range(2)
    ]
    summary, each = replayed_figures(found, SparkLatency(methods=("rod", "llf")))
    assert summary.trend_holds is holds
    rows = {row["method"]: row for row in summary.rows}
    assert rows["llf"]["p99_batch_ms"] == 1600
    assert (rows["llf"]["p99_least"], rows["llf"]["p99_most"]) == (1500, 1700)
    assert len(each.rows) == 4
    assert each.curves is not None
    assert {each.curves.x, *each.curves.y} <= set(each.rows[0])
    json.dumps([figure.as_json("latency") for figure in (summary, each)], allow_nan=False)
