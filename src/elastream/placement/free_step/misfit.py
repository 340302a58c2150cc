"""Why tasks do not fit on the nodes, where counting proves it.

Three arguments, each a proof a person can check: a task heavier than the limit; nodes that together
cannot reach the total work, because no set of tasks comes near enough to the limit; and heavy tasks
of which too few share a node. Tasks that pass all three may still not fit.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from elastream.model.migration import LOAD_TOLERANCE, StepProblem, exact_sum
from elastream.placement.free_step.whole_step import WholeStep


def heavy_task(problem: StepProblem) -> str | None:
    """Return a sentence on the heaviest task if it is over the limit."""
    task = max(range(len(problem.work)), key=lambda j: problem.work[j])
    work, most = problem.work[task], Fraction(problem.limit) * (1 + Fraction(LOAD_TOLERANCE))
    if Fraction(work) <= most:
        return None
    return f"task {task} has work {work:g} and {_limit(problem)}"


def misfit(step: WholeStep, problem: StepProblem) -> str | None:
    """Return why the tasks cannot fit if counting shows it, else ``None``."""
    total = int(step.work.sum())
    if step.allowed * step.capacity < total:
        most = float(step.capacity * step.work_unit)
        return (
            f"no set of tasks within the limit weighs more than {most:g}, so {step.allowed} nodes "
            f"hold at most {step.allowed * most:g} of the work {_total(problem)}; {_limit(problem)}"
        )
    crowd = _crowd(step)
    if crowd is None:
        return None
    count, together = crowd
    least = float(np.sort(step.work)[-count] * step.work_unit)
    return (
        f"of the {count} tasks with work {least:g} or more a node can hold {together}, so "
        f"{step.allowed} nodes hold {step.allowed * together}; {_limit(problem)}"
    )


def no_packing(problem: StepProblem) -> str:
    """Return the sentence for tasks that were proven not to fit by search."""
    return (
        f"no packing of the {len(problem.work)} tasks, work {_total(problem)} in all, on "
        f"{problem.target.nodes} nodes exists; {_limit(problem)}"
    )


def _crowd(step: WholeStep) -> tuple[int, int] | None:
    """Return a number of heaviest tasks and how few of them fit on a node, if that is too few.

    If even the lightest ``q + 1`` of the heaviest ``q * allowed + 1`` tasks are over the capacity
    then no node holds more than ``q`` of these, and one is left over.
    """
    falling = -np.sort(-step.work)
    for together in range(1, len(falling) // step.allowed + 1):
        count = together * step.allowed + 1
        if count <= len(falling) and falling[count - together - 1 : count].sum() > step.capacity:
            return count, together
    return None


def _total(problem: StepProblem) -> str:
    return f"{exact_sum(problem.work):g}"


def _limit(problem: StepProblem) -> str:
    nodes, tau = problem.target.nodes, problem.target.tau
    return f"a node may hold {problem.limit:.6g} = (1 + {tau:g}) x {_total(problem)} / {nodes}"
