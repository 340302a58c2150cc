"""Redist: tasks by decreasing work, each to the node of best balance and migration together.

A baseline of paper 001 (section 6), after B. Gedik, "Partitioning functions for stateful data
parallelism in stream processing", VLDB Journal 23(4), 2014. All tasks are taken off their nodes
and placed again on the nodes ``0 .. n'-1``, the heaviest first (of equal ones the lower number).
With the tasks placed so far and task j on node i, Gedik penalises

    ``imbalance = (max load - min load) / mean load``, in units of the imbalance ``theta`` allowed,
    ``migration = state moved so far / (all state / n')``, in units of an ideal migration,

and takes the node of least ``imbalance / theta + migration``. We allow ``theta = tau`` and weigh
the second term: node i has the penalty ``imbalance + weight * tau * migration``, the same order
of nodes for ``weight = 1`` and defined for ``tau = 0``, where migration only breaks ties. Where no
task has work all penalties are 0. Ties go to the node that has the task, then to the lower load,
then to the lower number. As all tasks are placed again, even a balanced assignment may change.

Only two nodes can be best, the one that has the task and the least loaded one (it lowers the
maximum and raises the minimum at least as much as any other), so a plan takes O(m log n')
comparisons. The limit is not enforced: plans may be over it (status ``unbalanced``).

Departures from Gedik. He balances memory, processing and network, we balance work, the only load
the papers limit. He hashes a stream's rare keys and places frequent ones only; our tasks are few
and all placed. His Redist also chooses which item to place next, by penalty over frequency; the
order by decreasing load, which this project asks for, is that of his Scan.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from elastream.model.checks import Number, non_negative
from elastream.model.migration import StepProblem, exact_sum
from elastream.model.plan import StepPlan, step_plan


def redist(problem: StepProblem, *, weight: Number = 1) -> StepPlan:
    """Return the plan of the greedy placement; a higher ``weight`` keeps more state in place."""
    non_negative("weight", weight)
    work, current = problem.work, problem.current.nodes_of_tasks
    total_state = exact_sum(problem.state)
    loads = _Loads(problem.target.nodes)
    placed_work: Number = 0
    nodes_of_tasks = list(current)
    for task in sorted(range(len(work)), key=lambda j: (-work[j], j)):
        placed_work += work[task]
        home, least = current[task], loads.least()
        node = least
        if home < problem.target.nodes:
            # Both penalties times mean load and all state, less what they have in common.
            gain = loads.spread_with(home, work[task]) - loads.spread_with(least, work[task])
            moving = weight * problem.target.tau * placed_work * problem.state[task]
            if gain * (total_state or 1) <= moving:
                node = home
        loads.add(node, work[task])
        nodes_of_tasks[task] = node
    return step_plan(problem, tuple(nodes_of_tasks))


class _Loads:
    """Work of each node, kept in order so that extremes are at hand."""

    def __init__(self, nodes: int) -> None:
        self._load: list[Number] = [0] * nodes
        self._ascending: list[tuple[Number, int]] = [(0, node) for node in range(nodes)]

    def least(self) -> int:
        return self._ascending[0][1]

    def spread_with(self, node: int, work: Number) -> Number:
        """Return the highest less the lowest load if ``work`` came to ``node``."""
        with_work = self._load[node] + work
        others = self._ascending[1:2] if node == self.least() else self._ascending[:1]
        highest = max(self._ascending[-1][0], with_work)
        return highest - min([with_work, *(load for load, _ in others)])

    def add(self, node: int, work: Number) -> None:
        del self._ascending[bisect_left(self._ascending, (self._load[node], node))]
        self._load[node] += work
        insort(self._ascending, (self._load[node], node))
