"""Where the long loops of valuing partitions run, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from elastream.foresight.ssm.interval_gain import Ints


class Runner:
    """Runs blocks one after the other in this process; a subclass runs them elsewhere."""

    parts = 1
    """Number of blocks that keep it busy."""

    def run(
        self,
        work: Callable[[Any, Any, Any], Any],
        fixed: object,
        changing: object,
        blocks: Sequence[Any],
    ) -> list[Any]:
        """Return ``work(fixed, changing, block)`` for each block, in order.

        ``fixed`` is the same object in many calls: worth keeping where it was brought to.
        """
        return [work(fixed, changing, block) for block in blocks]

    def split(self, rows: int, least: int) -> list[Ints]:
        """Return the numbers of the rows in blocks of at least ``least``."""
        return np.array_split(np.arange(rows), max(1, min(self.parts, rows // least)))
