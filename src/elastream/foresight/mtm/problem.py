"""Migrations to come, known by their odds: the chain, the problem and its plan.

Papers 000 (section 4.2) and 001 (section 5.2). A *migration chain* says how likely a migration from
n nodes leads to n' nodes. Its states are node counts or, where the chain remembers which way the
last migration went, pairs of a node count and a direction: a load that has just risen is more
likely to rise on, which a matrix over node counts alone cannot say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from elastream.model.assignment import MOST_NODES
from elastream.model.checks import (
    Number,
    Numbers,
    abbreviate,
    as_list,
    count,
    non_negative,
    non_negatives,
)
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan

Direction = Literal["up", "down"]
"""Which way a migration changed the number of nodes."""

_MOST_STATES = 1000
"""A chain of more states than this is a typing error."""
_ROW_SUM_TOLERANCE = 1e-6
"""Rows are scaled to sum to 1; one that is off by more than this is refused."""


@dataclass(frozen=True, slots=True)
class MigrationChain:
    """A Markov chain of node counts, and how much the future counts."""

    sizes: tuple[int, ...]
    """The number of nodes in each state."""
    matrix: tuple[tuple[float, ...], ...]
    """``matrix[z][y]``: how likely a migration from state z leads to state y; rows sum to 1."""
    gamma: float
    """Discount factor: what is moved k migrations from now counts ``gamma ** k``. Below 1."""
    directions: tuple[Direction, ...] | None = None
    """How each state was reached; ``None`` where the chain does not remember."""

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        matrix: Sequence[Numbers],
        gamma: Number,
        directions: Sequence[str] | None = None,
    ) -> MigrationChain:
        """Return the checked chain; each pair of a size and a direction stands for one state."""
        given = as_list("chain.sizes", sizes)
        if not 0 < len(given) <= _MOST_STATES:
            raise ProblemError("chain.sizes", f"has {len(given)} entries; give 1 to 1000")
        nodes = tuple(
            count(f"chain.sizes[{i}]", size, least=1, most=MOST_NODES)
            for i, size in enumerate(given)
        )
        ways = None if directions is None else _directions(directions, len(nodes))
        states = list(zip(nodes, ways or nodes, strict=True))
        for i, state in enumerate(states):
            if state in states[:i]:
                raise ProblemError(f"chain.sizes[{i}]", f"{nodes[i]} is given twice")
        return cls(nodes, _rows(matrix, len(nodes)), float(discount("chain.gamma", gamma)), ways)

    def state(self, nodes: int, direction: Direction) -> int | None:
        """Return the state of a migration to ``nodes`` that way; ``None`` if there is none.

        Where the direction was never seen at this size, the size with the other one is taken.
        """
        found = [z for z, size in enumerate(self.sizes) if size == nodes]
        if self.directions is not None:
            found.sort(key=lambda z: self.directions is None or self.directions[z] != direction)
        return found[0] if found else None

    def restricted(self, states: Sequence[int]) -> MigrationChain:
        """Return the chain of these states alone, which must lead to no other."""
        return MigrationChain(
            tuple(self.sizes[z] for z in states),
            tuple(tuple(self.matrix[z][y] for y in states) for z in states),
            self.gamma,
            None if self.directions is None else tuple(self.directions[z] for z in states),
        )

    def reachable(self, state: int) -> list[int]:
        """Return ``state`` and the states that migrations from it can lead to, in order."""
        found = [state]
        for z in found:
            found += [y for y, odds in enumerate(self.matrix[z]) if odds > 0 and y not in found]
        return sorted(found)


@dataclass(frozen=True, slots=True)
class TransitionProblem:
    """One migration, and the odds of those to come (section 4.2 of paper 000)."""

    step: StepProblem
    """The migration at hand. Work, state and threshold hold for the later ones too."""
    chain: MigrationChain
    state: int
    """The chain's state after the migration at hand."""

    @classmethod
    def of(
        cls, step: StepProblem, chain: MigrationChain, direction: str | None = None
    ) -> TransitionProblem:
        """Return the checked problem.

        ``direction`` matters where the chain has directions. Left out, it follows from comparing
        the nodes afterwards with those that hold tasks now.
        """
        return cls(step, chain, state_after(step, chain, direction))


@dataclass(frozen=True, slots=True)
class ProjectionProblem:
    """What values of partitions are computed for: tasks, threshold and the odds of migrations."""

    work: tuple[Number, ...]
    """Load of each task."""
    state: tuple[Number, ...]
    """State size of each task, in bytes."""
    tau: Number
    """Load-balancing threshold, the same at every size."""
    chain: MigrationChain

    @classmethod
    def of(
        cls, work: Numbers, state: Numbers, tau: Number, chain: MigrationChain
    ) -> ProjectionProblem:
        """Return the checked problem."""
        step = StepProblem.of(work, state, [[0, len(work)]], chain.sizes[0], tau)
        return cls(step.work, step.state, step.target.tau, chain)

    @property
    def fingerprint(self) -> str:
        """A text that differs for different problems: values serve the one they were made for."""
        chain = self.chain
        parts = [self.work, self.state, self.tau, chain.sizes, chain.matrix, chain.gamma]
        text = json.dumps([*parts, chain.directions])
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TransitionPlan:
    """A migration chosen with those to come in view."""

    status: Literal["optimal", "feasible"]
    """``optimal`` where every partition that fits was valued."""
    step: StepPlan
    """The migration at hand; its own status speaks of its cost alone."""
    projected: float | None
    """The value of the policy, in bytes: the discounted state that later migrations are expected
    to move where each size is learnt when it comes. An upper bound unless the status is optimal.
    Definition 4.1 of paper 000 has hindsight and is below. ``None`` where a later migration cannot
    be made at all."""
    partitions: int
    """How many partitions were valued."""


def direction_of(step: StepProblem) -> Direction:
    """Return which way a migration goes, by the nodes that hold tasks before it."""
    holding = len(set(step.current.nodes_of_tasks))
    return "up" if step.target.nodes > holding else "down"


def expect_one_limit(step: StepProblem) -> None:
    """Refuse a problem with more than one limit on the work of a node."""
    if not step.plain:
        raise ProblemError("stages", "one stage, one slot and no memory are supported here")


def state_after(step: StepProblem, chain: MigrationChain, direction: str | None) -> int:
    """Return the chain's state after a migration; without a direction, the step's own is taken."""
    expect_one_limit(step)
    way = direction_of(step) if direction is None else _direction("direction", direction)
    state = chain.state(step.target.nodes, way)
    if state is None:
        raise ProblemError("nodes", f"{step.target.nodes} is not among chain.sizes")
    return state


def _rows(matrix: object, states: int) -> tuple[tuple[float, ...], ...]:
    rows = as_list("chain.matrix", matrix)
    if len(rows) != states:
        raise ProblemError("chain.matrix", f"has {len(rows)} rows where {states} are needed")
    checked = []
    for i, row in enumerate(rows):
        field = f"chain.matrix[{i}]"
        odds = non_negatives(field, row, length=states)
        total = float(sum(odds))
        if abs(total - 1) > _ROW_SUM_TOLERANCE:
            raise ProblemError(field, f"sums to {total:g}, not to 1")
        checked.append(tuple(float(chance) / total for chance in odds))
    return tuple(checked)


def discount(field: str, gamma: object, *, most: Number = 0.999) -> Number:
    """Return ``gamma`` as a discount factor of migrations to come."""
    factor = non_negative(field, gamma)
    if factor > most:
        raise ProblemError(field, f"{abbreviate(gamma)} is too large; the most is {most}")
    return factor


def _directions(directions: object, states: int) -> tuple[Direction, ...]:
    ways = as_list("chain.directions", directions)
    if len(ways) != states:
        raise ProblemError("chain.directions", f"has {len(ways)} entries; {states} are needed")
    return tuple(_direction(f"chain.directions[{i}]", way) for i, way in enumerate(ways))


def _direction(field: str, way: object) -> Direction:
    for known in get_args(Direction):
        if way == known:
            found: Direction = known
            return found
    raise ProblemError(field, f"{abbreviate(way)} is not a direction; give up or down")
