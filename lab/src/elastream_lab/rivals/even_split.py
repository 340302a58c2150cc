"""Storm's even split: the same number of consecutive tasks to each node, whatever they weigh.

The baseline "Storm" of papers 000 and 001 (section 6): the default scheduler gives each node the
same number of consecutive tasks. Of m tasks, node i of the nodes ``0 .. n'-1`` gets the i-th run;
where n' does not divide m, the first ``m mod n'`` runs are one task longer, and with more nodes
than tasks the last nodes are idle. Neither work nor state counts, so plans may be over the limit
(status ``unbalanced``), and a change by one node shifts nearly every run. O(m).
"""

from __future__ import annotations

from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan, step_plan


def even_split(problem: StepProblem) -> StepPlan:
    """Return the plan that gives the i-th run of equally many consecutive tasks to node i."""
    length, longer = divmod(len(problem.work), problem.target.nodes)
    nodes_of_tasks: list[int] = []
    for node in range(min(problem.target.nodes, len(problem.work))):
        nodes_of_tasks += [node] * (length + (node < longer))
    return step_plan(problem, tuple(nodes_of_tasks))
