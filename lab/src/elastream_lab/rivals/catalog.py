"""Every planner of a single migration by its name, so that benchmarks and tests run them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan, StepPlanner, step_plan
from elastream.placement.free_step.planner import free_step
from elastream_lab.rivals.bounded_hashing import bounded_hashing
from elastream_lab.rivals.consistent_hashing import consistent_hashing
from elastream_lab.rivals.even_split import even_split
from elastream_lab.rivals.redist import redist


def _each_stage(baseline: Callable[[StepProblem], StepPlan]) -> StepPlanner:
    """Return a baseline that places each stage by itself; it knows neither slots nor memory."""

    def planner(problem: StepProblem) -> StepPlan:
        if not problem.stages:
            return baseline(problem)
        place = list(problem.current.nodes_of_tasks)
        for stage in range(max(problem.stages) + 1):
            tasks = [task for task, of in enumerate(problem.stages) if of == stage]
            current = Assignment(tuple(place[task] for task in tasks), problem.current.nodes)
            work, state = ([of[task] for task in tasks] for of in (problem.work, problem.state))
            alone = StepProblem(tuple(work), tuple(state), current, problem.target)
            nodes = baseline(alone).assignment.nodes_of_tasks
            for task, node in zip(tasks, nodes, strict=True):
                place[task] = node
        return step_plan(problem, tuple(place))

    return planner


STEP_PLANNERS: Mapping[str, StepPlanner] = MappingProxyType(
    {
        "single-step": single_step,
        "free-step": free_step,
        "even-split": _each_stage(even_split),
        "consistent-hashing": _each_stage(consistent_hashing),
        "bounded-hashing": _each_stage(bounded_hashing),
        "redist": _each_stage(redist),
    }
)
"""The planners first, then the baselines, which may exceed the load limit."""
