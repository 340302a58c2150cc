"""What all partitions of one problem share: the tasks' sums, the sizes and the node limits.

A partition is a cut of the tasks into consecutive, non-empty intervals. It *serves* a size n if it
has at most n intervals, none with more work than ``(1 + tau) W / n``: idle nodes are allowed. A
partition that serves two sizes serves those between, because with fewer nodes each may hold more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastream.foresight.mtm.problem import MigrationChain
from elastream.foresight.ssm.cuts import prefix_sums
from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, Target, exact_sum
from elastream.placement.state_ticks import Ticks

Flags = NDArray[np.bool_]


class Ground(NamedTuple):
    """The tasks and the chain, as arrays that kernels read."""

    work: Floats
    """Prefix sums of the work: ``m + 1`` of them."""
    state: Ints
    """Prefix sums of the state, in ticks."""
    tick_bytes: float
    """Bytes in a tick, a power of two."""
    sizes: Ints
    """The node counts of the chain, rising, each once."""
    limits: Floats
    """Maximum work of a node at each size, including the tolerance."""
    size_of_state: Ints
    """For each state of the chain the place of its node count in ``sizes``."""
    odds: Floats
    """The transition matrix."""
    gamma: float

    @classmethod
    def of(
        cls, work: tuple[Number, ...], state: tuple[Number, ...], tau: Number, chain: MigrationChain
    ) -> Ground:
        """Return the ground of a problem."""
        total = exact_sum(work)
        sizes = np.unique(np.array(chain.sizes, dtype=np.int64))
        limits = [Target(int(size), tau).limit(total) * (1 + LOAD_TOLERANCE) for size in sizes]
        ticks = Ticks.for_floats(state)
        return cls(
            work=prefix_sums(work),
            state=prefix_sums(ticks.sizes).astype(np.int64),
            tick_bytes=2.0**-ticks.exponent,
            sizes=sizes,
            limits=np.array(limits),
            size_of_state=np.searchsorted(sizes, chain.sizes),
            odds=np.array(chain.matrix),
            gamma=chain.gamma,
        )

    @property
    def tasks(self) -> int:
        """Number of tasks (m)."""
        return len(self.work) - 1

    @property
    def width(self) -> int:
        """Maximum number of bounds of a partition that serves a size."""
        return min(int(self.sizes[-1]), self.tasks) + 1

    @property
    def total_state(self) -> int:
        """All state, in ticks."""
        return int(self.state[-1])
