"""Convert between assignments and cuts: only cuts matter for the future, not nodes (lemma 4.2).

A *cut* splits the tasks into non-empty intervals. The nodes of the intervals of a chosen cut follow
from the cheapest matching with the current intervals
(:mod:`~elastream.foresight.ssm.partition_cost`). Copies of state do not affect the choice of a cut,
only the assignment of its intervals to nodes (:func:`nearest_copies`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from elastream.foresight.ssm.interval_gain import Floats
from elastream.foresight.ssm.partition_cost import cheapest_matching
from elastream.model.assignment import Assignment, Interval
from elastream.model.checks import Number
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, exact_sum
from elastream.placement.matchings import most_valuable

Cut = tuple[int, ...]
"""The bounds ``0 = b[0] < b[1] < ... < b[k] = m`` of the intervals, in the order of the tasks."""


def intervals_of(current: Assignment) -> tuple[Interval, ...]:
    """Return the interval of each node, empty if it holds nothing."""
    intervals = current.intervals
    if intervals is None:
        raise ProblemError("current", "a node holds tasks that are not consecutive; try free-step")
    return intervals


def cut_of(current: Assignment) -> Cut:
    """Return the bounds of the nodes' intervals."""
    return (0, *sorted(ub for lb, ub in intervals_of(current) if lb < ub))


def nodes_of_cut(step: StepProblem, cut: Cut) -> tuple[int, ...]:
    """Return the node of each task: the one whose tasks stay in its interval, else the first spare.

    Of all nodes for the intervals of ``cut`` these move the least state, then the fewest tasks.
    """
    current = cut_of(step.current)
    nodes = [step.current.nodes_of_tasks[lb] for lb in current[:-1]]
    continues = cheapest_matching(step.state, current, cut).continues
    staying = {nodes[i] for i in continues if i is not None}
    spare = (node for node in range(step.nodes_after) if node not in staying)
    nodes_of_tasks: list[int] = []
    for (lb, ub), i in zip(pairwise(cut), continues, strict=True):
        node = next(spare) if i is None else nodes[i]
        nodes_of_tasks += [node] * (ub - lb)
    return nearest_copies(step, tuple(nodes_of_tasks))


def nearest_copies(step: StepProblem, nodes_of_tasks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the same intervals on the nodes where they load the least state.

    They stay on their nodes if no others load less. A matching of intervals and nodes, O(n³), and
    only if there are copies.
    """
    if not step.copies:
        return nodes_of_tasks
    firsts = [0, *(j for j in range(1, len(nodes_of_tasks)) if _cut_before(nodes_of_tasks, j))]
    interval_of = np.repeat(np.arange(len(firsts)), np.diff([*firsts, len(nodes_of_tasks)]))
    present = np.zeros((len(firsts), step.nodes_after))
    homes = [(task, node) for task, node in enumerate(step.current.nodes_of_tasks)]
    for task, node in (*homes, *step.copies):
        present[interval_of[task], node] += step.state[task]
    _, nodes = most_valuable(present)
    others = tuple(nodes[interval_of].tolist())
    return min(nodes_of_tasks, others, key=lambda placed: _loaded(step, placed))


def _cut_before(nodes_of_tasks: Sequence[int], task: int) -> bool:
    return nodes_of_tasks[task] != nodes_of_tasks[task - 1]


def _loaded(step: StepProblem, nodes_of_tasks: Sequence[int]) -> Number:
    return exact_sum(step.loaded(task, node) for task, node in enumerate(nodes_of_tasks))


def prefix_sums(terms: Sequence[Number]) -> Floats:
    """Return 0, the first term, the sum of the first two, and so on, each rounded once.

    The sum of an interval is the difference of the sums at its bounds.
    """
    if type(sum(terms)) is int:
        return np.array((0, *accumulate(terms)), dtype=np.float64)
    sums = np.zeros(len(terms) + 1)
    sums[1:] = np.cumsum(np.array(terms, dtype=np.float64), dtype=np.longdouble)
    return sums
