"""The long loops of valuing partitions, as Spark jobs (PMC of papers 000 and 001).

Pairs of partitions are never shuffled: what all blocks share is broadcast, and each task works on
its block of rows. The kernels are those of one process, so the outcome is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from elastream.foresight.mtm.runner import Runner

if TYPE_CHECKING:
    from pyspark import SparkContext

_BLOCKS_A_CORE: Final = 3


class SparkRunner(Runner):
    """Runs blocks as tasks of a Spark cluster."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._kept: tuple[object, Any] | None = None
        self.parts = _BLOCKS_A_CORE * context.defaultParallelism

    def run(
        self,
        work: Callable[[Any, Any, Any], Any],
        fixed: object,
        changing: object,
        blocks: Sequence[Any],
    ) -> list[Any]:
        """Return the result of each block; ``fixed`` is brought to the executors once."""
        if self._kept is None or self._kept[0] is not fixed:
            self._kept = (fixed, self._context.broadcast(fixed))
        kept, broadcast = self._kept[1], self._context.broadcast(changing)
        spread = self._context.parallelize(blocks, len(blocks))
        found: list[Any] = spread.map(
            lambda block: work(kept.value, broadcast.value, block)
        ).collect()
        broadcast.destroy()
        return found
