"""All placements of a few tasks, valued exactly, without sampling.

A placement is defined by which tasks are together; which node has them does not matter for later
migrations, as the papers' lemma 4.2 says of partitions. The state moved between two placements is
the total minus the most that a matching of their groups keeps. Up to a few hundred placements are
listed. With a chain their values are those of the best policy, as for partitions
(:mod:`~elastream.foresight.mtm.solving`). A given future is planned from its end, since it is known
once it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from elastream.foresight.ahead.futures import possible_targets
from elastream.foresight.ahead.problem import FreeAheadProblem
from elastream.foresight.mtm.ground import Flags
from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, Target, exact_sum
from elastream.placement.matchings import most_valuable

_MOST_PLACEMENTS = 200
_MOST_TASKS = 10
"""With more tasks there are too many placements, or too many dead ends in the enumeration."""
_PRECISION = 1e-11
"""Tolerance of the values, as a share of all state."""


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """All placements that serve the current migration, with their costs."""

    groups: Ints
    """For each placement the group of each task."""
    now: Floats
    """Cost of moving there."""
    later: Floats
    """Expected discounted cost of later migrations from there."""

    @property
    def best(self) -> int:
        """The placement of least cost, now and later; the first among equal ones."""
        return int(np.argmin(self.now + self.later))


def listed(problem: FreeAheadProblem) -> Listed | None:
    """Return all placements, valued; ``None`` if there are too many or a size cannot be served."""
    step = problem.step
    if problem.past or step.copies or len(step.work) > _MOST_TASKS:
        return None
    requested = possible_targets(problem)
    total = exact_sum(step.work)
    limits = {target: target.limit(total) * (1 + LOAD_TOLERANCE) for target in requested}
    most = max(target.nodes for target in requested)
    found = []
    for groups in _groupings(np.array(step.work, dtype=np.float64), most, max(limits.values())):
        found.append(groups)
        if len(found) > _MOST_PLACEMENTS:
            return None
    if not found:
        return None
    members = np.array(found)
    loads = _loads(members, np.array(step.work, dtype=np.float64))
    serves = {
        target: (members.max(axis=1) < target.nodes) & (loads.max(axis=1) <= limit)
        for target, limit in limits.items()
    }
    if not all(flags.any() for flags in serves.values()):
        return None
    state = np.array(step.state, dtype=np.float64)
    between = np.zeros((len(members), len(members)))
    for p, q in combinations(range(len(members)), 2):
        between[p, q] = between[q, p] = _moved(state, members[p], members[q])
    here = np.array(step.current.nodes_of_tasks)
    now = np.array([_moved(state, here, q) for q in members])
    later = _later(problem, serves, between, float(state.sum()))
    fits = serves[step.target]
    return Listed(members[fits], now[fits], problem.gamma * later[fits])


def nodes_of_groups(step: StepProblem, groups: Ints) -> tuple[int, ...]:
    """Return a node for each task: every group goes where most of its state is."""
    kept = np.zeros((int(groups.max()) + 1, step.nodes_after))
    for task, node in enumerate(step.current.nodes_of_tasks):
        kept[groups[task], node] += float(step.state[task])
    rows, nodes = most_valuable(kept)
    node_of = dict(zip(rows.tolist(), nodes.tolist(), strict=True))
    return tuple(node_of[int(group)] for group in groups)


def _groupings(work: Floats, most: int, limit: float) -> Iterator[list[int]]:
    """Yield every grouping of the tasks in at most ``most`` groups within the limit."""

    def extended(groups: list[int], loads: list[float]) -> Iterator[list[int]]:
        if len(groups) == len(work):
            yield groups
            return
        task = float(work[len(groups)])
        for group in range(min(len(loads) + 1, most)):
            load = (loads[group] if group < len(loads) else 0.0) + task
            if load <= limit:
                yield from extended([*groups, group], [*loads[:group], load, *loads[group + 1 :]])

    yield from extended([], [])


def _loads(members: Ints, work: Floats) -> Floats:
    width = int(members.max()) + 1
    return np.array([np.bincount(groups, weights=work, minlength=width) for groups in members])


def _moved(state: Floats, old: Ints, new: Ints) -> float:
    kept = np.zeros((int(old.max()) + 1, int(new.max()) + 1))
    np.add.at(kept, (old, new), state)
    return float(state.sum() - kept[most_valuable(kept)].sum())


def _later(
    problem: FreeAheadProblem, serves: dict[Target, Flags], between: Floats, total: float
) -> Floats:
    """Return what later migrations are expected to move from each placement."""
    if problem.chain is None:
        later = np.zeros(len(between))
        for future in problem.futures:
            onward = np.zeros(len(between))
            for target in reversed(future.targets):
                onward = _least(between, problem.gamma * onward, serves[target])
            later += future.odds * onward
        return later
    chain, tau = problem.chain, problem.step.target.tau
    states = chain.reachable(problem.state)
    odds = np.array([[chain.matrix[z][y] for y in states] for z in states])
    flags = [serves[Target(chain.sizes[z], tau)] for z in states]
    values = np.zeros((len(states), len(between)))
    while True:
        least = [
            _least(between, chain.gamma * value, fits)
            for value, fits in zip(values, flags, strict=True)
        ]
        swept = odds @ np.array(least)
        change = float(np.abs(swept - values).max())
        values = swept
        if change <= _PRECISION * total * (1 - chain.gamma):
            found: Floats = values[states.index(problem.state)]
            return found


def _least(between: Floats, later: Floats, fits: Flags) -> Floats:
    """Return the least cost from each placement to one that fits, now and later."""
    least: Floats = (between[:, fits] + later[fits]).min(axis=1)
    return least
