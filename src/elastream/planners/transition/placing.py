"""Between assignments and partitions: nodes do not matter for the future, only cuts do (lemma 4.2).

The nodes that a chosen partition's intervals go to follow from the cheapest matching with the
current intervals (:mod:`~elastream.planners.partition_cost`).
"""

from __future__ import annotations

from itertools import pairwise

from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.planners.partition_cost import cheapest_matching
from elastream.planners.transition.partitions import Cut

__all__ = ["current_cut", "nodes_of_cut"]


def current_cut(step: StepProblem) -> Cut:
    """Return the bounds of the current intervals."""
    if step.current.intervals is None:
        raise ProblemError("current", "a node holds tasks that are not consecutive; try free-step")
    nodes = step.current.nodes_of_tasks
    inner = (j + 1 for j, (before, after) in enumerate(pairwise(nodes)) if before != after)
    return (0, *inner, len(nodes))


def nodes_of_cut(step: StepProblem, cut: Cut) -> tuple[int, ...]:
    """Return the node of each task: that whose tasks stay in its interval, else the first spare.

    Of all nodes for the intervals of ``cut`` these move the least state, then the fewest tasks.
    """
    current = current_cut(step)
    nodes = [step.current.nodes_of_tasks[lb] for lb in current[:-1]]
    continues = cheapest_matching(step.state, current, cut).continues
    staying = {nodes[i] for i in continues if i is not None}
    spare = (node for node in range(step.nodes_after) if node not in staying)
    nodes_of_tasks: list[int] = []
    for (lb, ub), i in zip(pairwise(cut), continues, strict=True):
        node = next(spare) if i is None else nodes[i]
        nodes_of_tasks += [node] * (ub - lb)
    return tuple(nodes_of_tasks)
