"""Random applications for the simulated cluster, and what truly keeps their executors busy.

One to four queries of one to three operators each, with skew, on 2 to 64 executors. What they do is
known, so that a placement is judged without what the loop has measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from random import Random
from typing import Final

from elastream.model.observation import TaskId
from elastream.testing import ClusterSettings, SimulatedTask, Workload, rate_steps

MOST_EXECUTORS: Final = 64
CHANGE_S: Final = 60.0
"""When the load of an application that grows does so."""
_ROWS_PER_S: Final = 1000.0
_HEAVIEST: Final = 0.9
"""The heaviest tasks of the stages of a query together, in slots. Above one it falls behind on any
cluster; from here on its source gives a batch at most twice the rows of a trigger."""


@dataclass(frozen=True, slots=True)
class Application:
    """Queries on a simulated cluster."""

    workloads: tuple[Workload, ...]
    settings: ClusterSettings

    @property
    def slots(self) -> int:
        """Of each executor."""
        return self.settings.cores

    def asked(self, second: float) -> dict[TaskId, float]:
        """Return how many slots each task needs for what arrives."""
        return {
            task: load.rows_per_s(second) * each.share * each.row_ms / 1000
            for load in self.workloads
            for task, each in zip(load.task_ids, load.tasks, strict=True)
        }

    def work(self, second: float) -> dict[TaskId, float]:
        """Return how many slots each task keeps busy on executors that suffice.

        That is for what arrives, or for as much as the heaviest tasks of its query can do.
        """
        heaviest = {load.name: _heaviest(load, second) for load in self.workloads}
        return {
            task: used / max(1.0, heaviest[task.query]) for task, used in self.asked(second).items()
        }


def drawn(
    seed: int,
    *,
    busy: tuple[float, float],
    grown: tuple[float, float] | None = None,
    executors: tuple[int, int],
    queries: int = 4,
) -> Application:
    """Return an application whose executors are busy for a share of their time between these two.

    Where it grows it does so to a share between the two of ``grown``.
    """
    dice = Random(seed)
    least, most = executors
    number = min(most, round(least * (most / least) ** dice.random()))
    cores = dice.choice((1, 1, 1, 2))
    first = dice.uniform(*busy)
    rates = {0.0: _ROWS_PER_S}
    if grown is not None:
        rates[CHANGE_S] = _ROWS_PER_S * dice.uniform(*grown) / first
    weights = [dice.uniform(0.2, 1.0) for _ in range(dice.randint(1, queries))]
    workloads = tuple(
        _query(dice, f"q{place}", first * number * cores * weight / sum(weights), number, rates)
        for place, weight in enumerate(weights)
    )
    settings = ClusterSettings(executors=number, slots=MOST_EXECUTORS, cores=cores)
    return Application(tuple(map(_bounded, workloads)), settings)


def _bounded(load: Workload) -> Workload:
    """Return a query whose batches do not grow for ever, though tasks may be too heavy."""
    if _heaviest(load, CHANGE_S) <= _HEAVIEST:
        return load
    rate = load.rows_per_s(CHANGE_S)
    return replace(load, most_rows=round(rate * load.trigger_ms / 500))


def _heaviest(load: Workload, second: float) -> float:
    """Return how many slots the heaviest tasks of the stages of a query need together."""
    heaviest: dict[int, float] = {}
    for each in load.tasks:
        work = load.rows_per_s(second) * each.share * each.row_ms / 1000
        heaviest[each.operator] = max(heaviest.get(each.operator, 0.0), work)
    return sum(heaviest.values())


def _query(
    dice: Random, name: str, slots: float, executors: int, rates: Mapping[float, float]
) -> Workload:
    """Return a query that keeps this many slots busy at the first rate."""
    partitions = max(4, round(executors * dice.choice((1, 2, 3))))
    weights = [dice.uniform(0.05, 1.0) for _ in range(dice.randint(1, 3))]
    skew = dice.choice((0.0, 0.2, 0.5, 0.8))
    tasks = []
    for operator, weight in enumerate(weights):
        row_ms = 1000 * slots * weight / sum(weights) / _ROWS_PER_S
        shares = [dice.lognormvariate(0.0, skew) for _ in range(partitions)]
        tasks += [
            SimulatedTask(
                operator, j, share / sum(shares), row_ms, round(dice.lognormvariate(13.0, skew))
            )
            for j, share in enumerate(shares)
        ]
    return Workload(
        tuple(tasks),
        rate_steps(rates),
        name=name,
        trigger_ms=dice.choice((2000.0, 3000.0, 5000.0)),
        overhead_ms=dice.uniform(50.0, 200.0),
    )


def busiest(work: Mapping[TaskId, float], where: Mapping[TaskId, str], slots: int) -> float:
    """Return what share of its slots the busiest executor keeps busy."""
    held: dict[str, float] = {}
    for task, used in work.items():
        if task in where:
            held[where[task]] = held.get(where[task], 0.0) + used
    return max(held.values(), default=0.0) / slots


def evenly(work: Mapping[TaskId, float], executors: int, slots: int) -> float:
    """Return the busiest of a good placement: the heaviest tasks first, each where least is."""
    held = [0.0] * executors
    heapify(held)
    for used in sorted(work.values(), reverse=True):
        heapreplace(held, held[0] + used)
    return max(held) / slots
