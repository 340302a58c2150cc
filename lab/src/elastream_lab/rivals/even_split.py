"""Storm's even split: the same number of consecutive tasks to each node, whatever they weigh.

The baseline "Storm" of papers 000 and 001 (section 6): the default scheduler gives each node the
same number of consecutive tasks. Of m tasks, node i of the nodes ``0 .. n'-1`` gets the i-th run;
where n' does not divide m, the first ``m mod n'`` runs are one task longer, and with more nodes
than tasks the last nodes are idle. Neither work nor state counts, so plans may be over the limit
(status ``unbalanced``), and a change by one node shifts nearly every run. O(m).

The baseline is defined for one operator: of a problem with several stages each is split by itself.
"""

from __future__ import annotations

from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan, step_plan


def even_split(problem: StepProblem) -> StepPlan:
    """Return the plan that gives the i-th run of equally many consecutive tasks to node i."""
    stages: dict[int, list[int]] = {}
    for task, stage in enumerate(problem.stages or (0,) * len(problem.work)):
        stages.setdefault(stage, []).append(task)
    nodes_of_tasks = [0] * len(problem.work)
    for tasks in stages.values():
        length, longer = divmod(len(tasks), problem.target.nodes)
        runs = [
            node for node in range(problem.target.nodes) for _ in range(length + (node < longer))
        ]
        for task, node in zip(tasks, runs, strict=True):
            nodes_of_tasks[task] = node
    return step_plan(problem, tuple(nodes_of_tasks))
