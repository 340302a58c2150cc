"""What rings move over the same migrations: consistent hashing, and such that keeps the limit.

Papers 000 and 001 run consistent hashing a hundred times and take the mean. Its ring knows no load,
so it moves the same at every threshold and keeps none. To see what that is worth, the same rings
also run with bounded loads (:mod:`~elastream_lab.rivals.bounded_hashing`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from elastream_lab.rivals.bounded_hashing import bounded_assignment
from elastream_lab.rivals.consistent_hashing import ring_order
from elastream_lab.studies.migration_cost.load import Migration
from elastream_lab.studies.migration_cost.run import Run

Placing = Callable[[Migration, Sequence[Sequence[int]]], Sequence[int]]


class Rings:
    """The rings of all seeds and sizes, made once and run several times."""

    def __init__(self, migrations: Sequence[Migration], first_nodes: int, seeds: range) -> None:
        self._migrations = migrations
        self._first_nodes = first_nodes
        tasks = len(migrations[0].work)
        sizes = {first_nodes, *(migration.nodes for migration in migrations)}
        self._orders = [{n: ring_order(tasks, n, seed) for n in sizes} for seed in seeds]

    def unbounded(self, tau: float) -> Run:
        """Return what consistent hashing moves; ``tau`` shows only what is over the limit."""
        return self._run(tau, lambda _migration, order: [met[0] for met in order])

    def bounded(self, tau: float) -> Run:
        """Return what consistent hashing with bounded loads moves."""

        def placing(migration: Migration, order: Sequence[Sequence[int]]) -> Sequence[int]:
            return bounded_assignment(migration.work, order, migration.limit(tau, len(order[0])))

        return self._run(tau, placing)

    def _run(self, tau: float, placing: Placing) -> Run:
        shares, times, imbalances, over = [], [], [], []
        for orders in self._orders:
            here = np.array(placing(self._migrations[0], orders[self._first_nodes]))
            for migration in self._migrations:
                start = time.perf_counter()
                there = np.array(placing(migration, orders[migration.nodes]))
                times.append(time.perf_counter() - start)
                moved = np.array(migration.state)[here != there].sum()
                shares.append(moved / max(sum(migration.state), 1))
                heaviest = np.bincount(there, weights=migration.work).max()
                imbalances.append(migration.imbalance(float(heaviest)))
                over.append(migration.is_over(float(heaviest), tau))
                here = there
        return Run.of(shares, median(times), imbalances, over)
