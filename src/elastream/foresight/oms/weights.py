"""The weight of each migration of a sequence: the weighted sequence cost of paper 000, section 4.2.

The state that migration ``i`` moves, from 0, counts ``w_i = gamma ** i``. Weights are exact
fractions; gamma is the decimal number that it prints as. A bound is rounded down.

Bound. Let ``c_i`` be what migration ``i`` moves and ``d_i`` the least that leads to it directly. By
the triangle inequality ``C_i = c_0 + ... + c_i`` is at least ``D_i = max(d_0 .. d_i)``. Summed by
parts the cost is the sum of ``(w_i - w_{i+1}) C_i``: at least that of ``w_i (D_i - D_{i-1})``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.checks import Number
from elastream.model.plan import StepPlan

_LEAST_SEARCHED = Fraction(1, 2**40)
"""Migrations with less weight than this share of the first one searched are not searched."""
_LEAST_COUNTED = Fraction(1, 2**1500)
"""Smaller weights count as zero: no cost would be a float above zero, and powers get long."""


@dataclass(frozen=True, slots=True)
class StepWeights:
    """The weights of all migrations of a problem."""

    of_steps: tuple[Fraction, ...]
    """They start at 1 and never rise."""
    whole: bool
    """Whether the weighted cost of any plan is a whole number of bytes."""

    @classmethod
    def of(cls, problem: SequenceProblem) -> StepWeights:
        """Return the weights of the problem's migrations."""
        factors = [Fraction(str(problem.gamma))] * (len(problem.targets) - 1)
        powers = tuple(accumulate(factors, _lighter, initial=Fraction(1)))
        whole = all(type(size) is int for size in problem.state)
        return cls(powers, whole and all(power.denominator == 1 for power in powers))

    @property
    def falling(self) -> bool:
        """Whether a later migration counts less than an earlier one."""
        return self.of_steps[-1] < 1

    def cost(self, steps: Sequence[StepPlan]) -> Fraction:
        """Return the weighted cost of the steps."""
        return self._weighed([self._moved(step) for step in steps])

    def least(self, direct: Sequence[StepPlan]) -> Fraction:
        """Return a bound from bounds on the way to each migration, each on its own."""
        bounds = (
            self._moved(step) if step.status == "optimal" else Fraction(step.lower_bound)
            for step in direct
        )
        dearest = accumulate(bounds, max, initial=Fraction(0))
        return self._weighed([high - low for low, high in pairwise(dearest)])

    def searched(self, steps: Sequence[int]) -> list[int]:
        """Return those of the steps, the first ones, that count enough to be searched."""
        least = _LEAST_SEARCHED * self.of_steps[steps[0]]
        return [step for step in steps if self.of_steps[step] >= least]

    def rounded(self, cost: Fraction) -> Number:
        """Return the weighted cost as a number: whole where all are, else the nearest."""
        return math.floor(cost) if self.whole else float(cost)

    def rounded_down(self, bound: Fraction) -> Number:
        """Return the highest number that is not above the bound."""
        near = self.rounded(bound)
        return math.nextafter(near, -math.inf) if Fraction(near) > bound else near

    def _moved(self, step: StepPlan) -> Fraction:
        """Return the state a step moves: exact, or rounded as ``cost`` is where all count 1."""
        if self.falling:
            return sum((Fraction(move.state) for move in step.moves), Fraction(0))
        return Fraction(step.cost)

    def _weighed(self, amounts: Sequence[Fraction]) -> Fraction:
        terms = zip(self.of_steps, amounts, strict=True)
        return sum((weight * amount for weight, amount in terms), Fraction(0))


def _lighter(weight: Fraction, gamma: Fraction) -> Fraction:
    lighter = weight * gamma
    return lighter if lighter >= _LEAST_COUNTED else Fraction(0)
