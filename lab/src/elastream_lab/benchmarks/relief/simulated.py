"""The same batches on the simulated cluster: how far its physics are from live executors.

Each query is made of what its batches showed before a change: rows and run time of every task, the
work of tasks without state, and the fixed part. It then runs with the tasks where they are after
the change. What differs from what was measured then is an error of the simulated batch, not of a
plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Final

from elastream.core.ports import Ticket
from elastream.model.observation import BatchObservation, OperatorGraph, TaskId
from elastream.testing import ClusterSettings, SimulatedCluster, SimulatedTask, Workload
from elastream_lab.benchmarks.relief.figures import fixed_ms, outside_work, places, task_work

_ALWAYS: Final = 1e6
"""Rows a second that arrive: more than are read, so that batches follow one another."""
_BATCHES: Final = 12
"""Of each query; the later half counts."""


def simulated_batch_ms(
    before: Mapping[str, Sequence[BatchObservation]],
    after: Mapping[str, Sequence[BatchObservation]],
    graphs: Mapping[str, OperatorGraph],
    slots: int,
    executors: int,
) -> dict[str, float]:
    """Return how long a batch of each query takes on simulated executors with these slots.

    ``before`` and ``after`` are the batches around a live change to this many executors.
    """
    workloads = [_workload(name, batches, graphs[name], slots) for name, batches in before.items()]
    settings = ClusterSettings(executors=executors, cores=slots)
    cluster = SimulatedCluster(workloads, settings)
    for name, placed in _placements(after, cluster).items():
        cluster.place(name, placed, ticket=Ticket())
    took: dict[str, list[float]] = defaultdict(list)
    for _ in range(_BATCHES * len(before)):
        batch = cluster.run_batch()
        if batch is not None:
            took[batch.query].append(batch.duration_ms)
    return {name: median(times[len(times) // 2 :]) for name, times in took.items()}


def _workload(
    name: str, batches: Sequence[BatchObservation], graph: OperatorGraph, slots: int
) -> Workload:
    read = max(1, batches[0].rows)
    rows: dict[TaskId, list[int]] = defaultdict(list)
    for batch in batches:
        for each in batch.tasks:
            rows[each.task].append(each.rows)
    tasks = tuple(
        SimulatedTask(
            operator=task.operator,
            partition=task.partition,
            share=max(fmean(rows[task]), 1) / read,
            row_ms=ms / max(fmean(rows[task]), 1),
            state_bytes=1,
        )
        for task, ms in sorted(task_work(batches).items())
    )
    return Workload(
        tasks,
        lambda _: _ALWAYS,
        name=name,
        outside_row_ms=outside_work(batches) / read,
        feeds=graph.feeds,
        trigger_ms=1.0,
        overhead_ms=median(fixed_ms(batch, slots) for batch in batches),
        most_rows=read,
    )


def _placements(
    after: Mapping[str, Sequence[BatchObservation]], cluster: SimulatedCluster
) -> dict[str, dict[TaskId, str]]:
    """Return where the tasks of each query are, by the names of the simulated executors."""
    live = {name: places(batches) for name, batches in after.items()}
    used = sorted({node for placed in live.values() for node in placed.values()})
    names = dict(zip(used, (each.id for each in cluster.executors()), strict=False))
    return {
        name: {task: names[node] for task, node in placed.items()} for name, placed in live.items()
    }
