"""The long loops of growing a pool, as Spark jobs (PMC of papers 000 and 001, on Spark as there).

Pairs are never shuffled: the pool is broadcast, and each task multiplies its block of rows with
all of it.

* Candidates: the parents are spread over the tasks; each runs the single-step programs of its own,
  and the partitions found are made distinct by their bounds.
* Prices: blocks of candidates, with pool and values broadcast; a figure a candidate comes back.
* Pair costs: blocks of rows, computed once and kept on the executors (memory, then disk). A sweep
  broadcasts the values and brings back each row's best successor: O(Z K) numbers, not K². Of more
  partitions than have a table, each minimum is searched for in a tree
  (:mod:`~elastream.foresight.mtm.successor_tree`), and no pair is kept.

The kernels are those of the process, so the outcome is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from elastream.foresight.mtm.ground import Flags, Ground
from elastream.foresight.mtm.growth import MOST_TABLED, Bulk
from elastream.foresight.mtm.neighbourhood import neighbourhood
from elastream.foresight.mtm.pair_costs import cheapest, pair_costs
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.pricing import Pool, shortfalls
from elastream.foresight.mtm.solving import CostTable
from elastream.foresight.mtm.successor_tree import SuccessorTree
from elastream.foresight.ssm.interval_gain import Floats, Ints

if TYPE_CHECKING:
    from pyspark import SparkContext


_LEAST_ROWS: Final = 32
_MOST_ROWS: Final = 256
"""Rows of a block: enough to be worth a task, few enough for the memory of an executor."""
_BLOCKS_A_CORE: Final = 3
_LEAST_SEARCHED: Final = 512
"""Rows of a block where minima are searched for: some tenths of a second of a core."""


class SparkBulk(Bulk):
    """Runs the long loops on a Spark cluster."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def neighbourhood(self, ground: Ground, parents: Partitions) -> Partitions:
        """Return the candidates near the parents."""
        places = np.array_split(np.arange(len(parents)), self._parts(len(parents), least=1))
        blocks = [parents.taken(some) for some in places]
        found = self._spread(_near, ground, blocks).flatMap(lambda rows: rows).distinct().collect()
        rows = np.frombuffer(b"".join(sorted(found)), dtype=np.int64).reshape(-1, ground.width)
        return Partitions.of_rows(rows, ground.tasks)

    def cheapest_candidates(
        self,
        ground: Ground,
        candidates: Partitions,
        pool: Pool,
        visited: Partitions,
        onward: Floats,
        most: int,
    ) -> Partitions:
        """Return the candidates of least shortfall."""
        places = np.array_split(np.arange(len(candidates)), self._parts(len(candidates)))
        blocks = [candidates.taken(some) for some in places]
        found = self._spread(_priced, (ground, pool, visited, onward), blocks).collect()
        order = np.argsort(np.concatenate(found), kind="stable")
        return candidates.taken(np.sort(order[:most]))

    @contextmanager
    def costs(self, ground: Ground, pool: Partitions) -> Iterator[CostTable]:
        """Yield the cost of every pair of the pool, kept on the executors meanwhile."""
        from pyspark import StorageLevel

        if len(pool) > MOST_TABLED:
            wanted = _BLOCKS_A_CORE * self._context.defaultParallelism
            parts = max(1, min(wanted, len(pool) // _LEAST_SEARCHED))
            yield SuccessorTree(ground, pool, _OnExecutors(self._context), parts)
            return
        rows = np.array_split(np.arange(len(pool)), self._parts(len(pool)))
        blocks = self._spread(_block, (pool.state_sums(ground), pool.counts), rows)
        blocks.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield _Blocks(self._context, blocks)
        finally:
            blocks.unpersist()

    def _parts(self, rows: int, *, least: int = _LEAST_ROWS) -> int:
        """Return into how many blocks so many rows are cut."""
        wanted = _BLOCKS_A_CORE * self._context.defaultParallelism
        return max(1, -(-rows // _MOST_ROWS), min(wanted, rows // least))

    def _spread(
        self, work: Callable[[Any, Any], Any], shared: object, blocks: Sequence[object]
    ) -> Any:
        """Return ``work(shared, block)`` of each block, a Spark task each."""
        broadcast = self._context.broadcast(shared)
        return self._context.parallelize(blocks, len(blocks)).map(
            lambda block: work(broadcast.value, block)
        )


class _OnExecutors:
    """Runs blocks as Spark tasks; what stays the same is brought to the executors once."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._kept: tuple[object, Any] | None = None

    def __call__(
        self,
        work: Callable[[Any, Any, Any], Any],
        fixed: object,
        changing: object,
        blocks: Sequence[Any],
    ) -> list[Any]:
        if self._kept is None or self._kept[0] is not fixed:
            self._kept = (fixed, self._context.broadcast(fixed))
        kept, broadcast = self._kept[1], self._context.broadcast(changing)
        spread = self._context.parallelize(blocks, len(blocks))
        found: list[Any] = spread.map(
            lambda block: work(kept.value, broadcast.value, block)
        ).collect()
        broadcast.destroy()
        return found


class _Blocks:
    """Pair costs in blocks of rows."""

    def __init__(self, context: SparkContext, blocks: Any) -> None:
        self._context = context
        self._blocks = blocks

    def cheapest(self, later: Floats, stays: Flags) -> tuple[Ints, Floats]:
        broadcast = self._context.broadcast((later, stays))
        chosen = np.empty(stays.shape, dtype=np.int64)
        cost = np.empty(stays.shape)
        for rows, of_rows, paid in self._blocks.map(
            lambda block: _best(broadcast.value, block)
        ).collect():
            chosen[:, rows], cost[:, rows] = of_rows, paid
        broadcast.destroy()
        return chosen, cost


# Run on executors: functions of the module, so that kernels are found there and not sent.


def _near(ground: Ground, parents: Partitions) -> list[bytes]:
    return [row.tobytes() for row in neighbourhood(ground, parents).bounds]


def _priced(shared: tuple[Ground, Pool, Partitions, Floats], candidates: Partitions) -> Floats:
    ground, pool, visited, onward = shared
    return shortfalls(ground, candidates, pool, visited, onward)


def _block(shared: tuple[Ints, Ints], rows: Ints) -> tuple[Ints, Floats]:
    sums, counts = shared
    costs = np.empty((len(rows), len(counts)))
    run = pair_costs.for_operations(5.0 * costs.size * sums.shape[1])
    run(sums[rows], counts[rows], sums, counts, costs)
    return rows, costs


def _best(shared: tuple[Floats, Flags], block: tuple[Ints, Floats]) -> tuple[Ints, Ints, Floats]:
    (later, stays), (rows, costs) = shared, block
    chosen = np.broadcast_to(rows, (len(later), len(rows))).copy()
    value = np.zeros(chosen.shape)
    run = cheapest.for_operations(float(later.size) * len(rows))
    run(costs, later, np.ascontiguousarray(stays[:, rows]), chosen, value)
    return rows, chosen, costs[np.arange(len(rows)), chosen]
