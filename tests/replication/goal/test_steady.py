"""Steady streams: the number of executors settles, and none is busier than it can be."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from random import Random

import pytest

from elastream.core.policy import Policy
from elastream.model.observation import BatchObservation
from elastream.replication.goal.goal import Replication
from elastream.testing import ClusterSettings, SimulatedCluster, Workload, rate_steps, simulated
from elastream.testing.workload import SimulatedTask

MOST = 6
_SETTLED_S, _END_S = 400, 600


def steady(draw: Random, name: str, load: float, trigger_ms: float) -> Workload:
    """Return a query whose one to three operators together keep this number of slots busy."""
    partitions = draw.choice([5, 8, 13])
    parts = [draw.uniform(0.1, 1) for _ in range(draw.choice([1, 1, 2, 3]))]
    rows_per_s = 1000.0
    tasks = []
    for operator, part in enumerate(parts):
        shares = [draw.uniform(1, draw.choice([1, 1.3])) for _ in range(partitions)]
        row_ms = 1000 * load * part / sum(parts) / rows_per_s
        tasks += [
            SimulatedTask(operator, j, share / sum(shares), row_ms, draw.choice([1 << 16, 1 << 22]))
            for j, share in enumerate(shares)
        ]
    return Workload(tuple(tasks), rate_steps({0: rows_per_s}), name=name, trigger_ms=trigger_ms)


def share_of_executors(batches: Iterable[BatchObservation], seconds: float) -> dict[str, float]:
    """Return how busy each executor was with these batches, with their seconds."""
    busy: dict[str, float] = {}
    for batch in batches:
        for task in batch.tasks:
            busy[task.executor] = busy.get(task.executor, 0.0) + task.run_ms / 1000 / seconds
    return busy


def expect_rest(seed: int) -> None:
    """Expect that a random steady stream is left alone in the end, on executors that suffice."""
    draw = Random(seed)
    trigger_ms = draw.choice([1000, 2000, 5000, 10_000])
    load, queries = draw.uniform(0.3, 3.6), draw.choice([1, 1, 2])
    workloads = [steady(draw, f"q{i}", load / queries, trigger_ms) for i in range(queries)]
    enough = ceil(load / 0.9)
    goal = Replication(
        response_ms=draw.choice([1.3, 2, 3, 4, 6, 10]) * trigger_ms,
        max_replicas=MOST,
        period_s=draw.choice([20, 60]),
        latency=draw.choice(["fitted", "fitted", "queue"]),
    )
    few = max(1, enough - draw.choice([0, 0, 0, 1]))
    settings = ClusterSettings(executors=draw.randint(few, MOST), status_s=5)
    cluster = SimulatedCluster(workloads, settings)
    policy = Policy(max_executors=MOST, goal=goal, cooldown_s=20)
    with simulated(cluster, policy) as loop:
        cluster.advance(_SETTLED_S)
        settled = len(loop.changes)
        batches = cluster.advance(_END_S - _SETTLED_S)
        assert len(loop.changes) == settled, "no change once it has settled"
    span_s = _END_S - _SETTLED_S
    busiest = max(share_of_executors(batches, span_s).values())
    assert busiest < 1, f"busiest executor {busiest:.2f}"
    for name in cluster.queries:
        own = [batch for batch in batches if batch.query == name]
        assert own[-1].duration_ms <= 1.05 * own[0].duration_ms + 100, "batches do not grow"


@pytest.mark.parametrize("seed", range(8))
def test_a_steady_stream_is_left_alone_on_executors_that_suffice(seed: int) -> None:
    expect_rest(seed)


@pytest.mark.slow
def test_a_thousand_steady_streams_are_left_alone_on_executors_that_suffice() -> None:
    for seed in range(1000):
        expect_rest(seed)
