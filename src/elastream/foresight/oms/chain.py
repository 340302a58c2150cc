"""The steps of a sequence in whole ticks, each with its weight.

Every pair of neighbours has its own sizes: those of the tasks times the weight of its new step
relative to that of the first step searched. Gains, prices and bounds are sums of them, and no
search needs to know the weights. If sizes are whole, a byte is divided into enough ticks that all
weighted sizes are whole. If those are too many, or sizes are fractions, each weighted size is
rounded down, so a cost in ticks is never above the true one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np

from elastream.foresight.oms.intervals import IntervalGraph, fixed_cut
from elastream.foresight.oms.pairs import offsets
from elastream.foresight.ssm.interval_gain import Ints
from elastream.model.checks import Number
from elastream.placement.state_ticks import Ticks


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps of a sequence in ticks."""

    states: tuple[Ints, ...]
    """For each pair, the first being steps 0 and 1, the prefix sums of the state, weighed. No
    later pair has more."""
    current: tuple[int, ...]
    """Bounds of the cut before the first step."""
    graphs: tuple[IntervalGraph, ...]
    """What each step may choose; the first allows the current cut and nothing else."""
    unit: int
    """Every sum of weighed states is a multiple of this."""
    tick: Fraction
    """What a tick adds to the weighted cost, in bytes."""
    exact: bool
    """Whether no weighed size was rounded."""

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.states[0]) - 1

    @property
    def total(self) -> int:
        """What a sequence that moves nothing keeps."""
        return sum(int(state[-1]) for state in self.states)

    @property
    def cells(self) -> int:
        """How many values the tables of all pairs have."""
        return sum(int(offsets(old, new)[-1]) for old, new in pairwise(self.graphs))


def chain_of(
    state: Sequence[Number],
    current: tuple[int, ...],
    graphs: Sequence[IntervalGraph],
    weights: Sequence[Fraction],
) -> Chain:
    """Return the chain of steps with these graphs and weights, which do not rise.

    Ticks are few enough that no sum of values and prices overflows: the first weight is the
    largest, so no weighed size is above the size itself.
    """
    shares = [weight / weights[0] for weight in weights]
    whole = all(type(size) is int for size in state)
    finer = math.lcm(*(share.denominator for share in shares)) if whole else 1
    tasks, steps = len(state).bit_length(), len(graphs).bit_length()
    bits = min(50, 57 - tasks, 60 - tasks - steps)
    ticks = Ticks.of([size * finer for size in state], bits=bits)
    sizes = {share: _weighed(ticks.sizes, share) for share in set(shares)}
    sums = {share: np.array([0, *accumulate(s)], dtype=np.int64) for share, s in sizes.items()}
    return Chain(
        states=tuple(sums[share] for share in shares),
        current=current,
        graphs=(fixed_cut(current), *graphs),
        unit=math.gcd(*(math.gcd(*weighed) for weighed in sizes.values())) or 1,
        tick=weights[0] / finer / Fraction(2) ** ticks.exponent,
        exact=ticks.exact
        and all(
            size * share.numerator % share.denominator == 0
            for share in sizes
            for size in ticks.sizes
        ),
    )


def _weighed(sizes: Sequence[int], share: Fraction) -> list[int]:
    top, bottom = share.as_integer_ratio()
    return [size * top // bottom for size in sizes]
