"""State sizes as machine integers: exact sums and comparisons, with room for fractions.

A size is a whole number of *ticks*, a power of two of them per byte, chosen so that the total of
all sizes is a little under a given number of ticks. What does not fit is rounded down: a cost in
ticks is never more than the true one, so a lower bound in ticks is one in bytes.

What that proves: a plan of whole sizes is optimal only if it meets its bound to the byte. Fractions
are rounded as floats anyway; there a plan is optimal if no other costs less by more than one part
in 10⁹.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from elastream.model.checks import Number
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan, step_plan

PROVEN: Final = 10**9
"""If sizes are fractions, a plan is optimal if no other costs less by more than one part in this
many."""

_FLOAT_BITS = 53
"""Whole numbers below two to this power are exact as floats."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """State sizes in ticks."""

    sizes: tuple[int, ...]
    exponent: int
    """A byte has ``2**exponent`` ticks."""
    exact: bool = True
    """Whether no size was rounded."""

    @classmethod
    def of(cls, state: Sequence[Number], *, bits: int) -> Ticks:
        """Return the sizes with their total below ``2**bits`` ticks."""
        total = sum(state)
        magnitude = total.bit_length() if type(total) is int else math.frexp(total)[1]
        exponent = bits - magnitude - 1 if total else 0
        sizes = tuple(_scaled(size, exponent) for size in state)
        exact = (type(total) is int and exponent >= 0) or all(
            _in_bytes(count, size, exponent) == size
            for count, size in zip(sizes, state, strict=True)
        )
        return cls(sizes, exponent, exact)

    @classmethod
    def for_floats(cls, state: Sequence[Number]) -> Ticks:
        """Return sizes whose sums are exact as floats too: in bytes if possible."""
        if _all_whole(state) and sums_as_floats(state):
            return cls(tuple(map(int, state)), 0)
        return cls.of(state, bits=_FLOAT_BITS)


def sums_as_floats(state: Sequence[Number]) -> bool:
    """Return whether float sums of these sizes are as exact as the sizes.

    Sums of fractions are rounded like fractions themselves, and count as exact here.
    """
    return not _all_whole(state) or sum(state) < 1 << _FLOAT_BITS


def is_proven(cost: Fraction, bound: Fraction, *, whole: bool) -> bool:
    """Return whether a bound proves that nothing costs less; ``whole``: all sizes are whole."""
    return cost <= bound or (not whole and (cost - bound) * PROVEN <= cost)


def plan_with_bound(
    problem: StepProblem, nodes_of_tasks: tuple[int, ...], bound: Fraction
) -> StepPlan:
    """Return the plan with a proven bound on any cost; it is optimal if it meets the bound."""
    whole = _all_whole(problem.state)
    lower_bound = math.ceil(bound) if whole else rounded_down(bound)
    plan = step_plan(problem, nodes_of_tasks, lower_bound=lower_bound)
    if plan.status == "feasible" and is_proven(Fraction(plan.cost), bound, whole=whole):
        return step_plan(problem, nodes_of_tasks, optimal=True)
    return plan


def rounded_down(bound: Fraction) -> float:
    """Return the largest float not above the bound."""
    near = float(bound)
    return math.nextafter(near, -math.inf) if Fraction(near) > bound else near


def _all_whole(state: Sequence[Number]) -> bool:
    return all(type(size) is int for size in state)


def _scaled(size: Number, exponent: int) -> int:
    if isinstance(size, float):
        return math.floor(math.ldexp(size, exponent))
    return size << exponent if exponent >= 0 else size >> -exponent


def _in_bytes(count: int, size: Number, exponent: int) -> Number:
    """Return the ticks of a size in bytes."""
    if isinstance(size, float):
        return math.ldexp(count, -exponent)
    return count >> exponent if exponent >= 0 else count << -exponent
