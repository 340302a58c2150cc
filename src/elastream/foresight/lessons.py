"""Compute a lesson: a chain of sizes, the values of partitions, and whether they pay.

The observed sequence of sizes makes the chain (papers 000 and 001, section 6), with direction once
there are enough of them. Values are computed for the current tasks. Then the past is replayed, from
an even start, by single-step and by the values: if looking ahead would have moved more, it is not
used. If tasks need not be consecutive there are no values: the chain is all that free-ahead needs,
and it is compared with free-step. Nor are there values of several operators: each of them is
planned by itself, and the tasks of one are few of those that the values would be for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from elastream.core.goal import MadePlanner
from elastream.core.learning import Learnt, Lesson
from elastream.core.migrator.problem import stages_of
from elastream.foresight.ahead.planner import FreeAheadPlanner
from elastream.foresight.chain import ChainSettings, migration_chain
from elastream.foresight.mtm.growth import GrowthSettings
from elastream.foresight.mtm.planner import TransitionPlanner
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues, partition_values
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan, StepPlanner
from elastream.placement.even_spread import (
    attainable,
    attainable_tau,
    even_bounds,
    even_placement,
)
from elastream.placement.free_step.planner import free_step

_GAMMA: Final = 0.8
_FREE_GAMMA: Final = 0.95
"""Roll-outs of free placements look further ahead than values of partitions need to."""
_DIRECTED_FROM: Final = 20
"""From this many changes of size on, the chain remembers the last direction."""
_REPLAYED: Final = 200
"""Number of the latest changes that are replayed."""
_GROWTH: Final = GrowthSettings(pool=1000, rounds=6)


@dataclass(frozen=True, slots=True)
class Worked:
    """Result of a lesson: values, and what each planner would have moved."""

    values: PartitionValues | None
    reason: str
    """Why there are none, otherwise a summary."""
    chain: MigrationChain | None = None
    """Replaces values if tasks need not be consecutive."""
    ahead_percent: float | None = None
    single_percent: float | None = None

    @property
    def pays(self) -> bool:
        """Whether looking ahead would have moved no more."""
        if self.ahead_percent is None or self.single_percent is None:
            return False
        return self.ahead_percent <= self.single_percent * (1 + 1e-9)


def work_out(lesson: Lesson) -> Worked:
    """Return the values, or the chain, for a lesson; seconds to a minute of one core."""
    problem = _problem(lesson)
    if not lesson.contiguous:
        return _free(lesson, problem)
    stages, _ = stages_of(lesson.tasks, lesson.realtime)
    if stages:
        return Worked(None, f"values are for one operator, and there are {max(stages) + 1}")
    values = partition_values(problem, settings=_GROWTH)
    if isinstance(values, Infeasible):
        return Worked(None, values.reason)
    planner = TransitionPlanner(values)
    single = _replayed(lesson, problem, single_step)
    ahead = _replayed(lesson, problem, planner)
    changes = len(lesson.sizes) - 1
    found = f"{ahead:.2f} % of all state moved a change, {single:.2f} % by single steps"
    which = "all" if values.complete else "a pool of"
    reason = (
        f"from {changes} changes of size, {which} {len(values.members)} partitions valued: {found}"
    )
    return Worked(values, reason, None, ahead, single)


def _free(lesson: Lesson, problem: ProjectionProblem) -> Worked:
    """Return the chain, and what looking ahead would have moved by it."""
    free = _replayed(lesson, problem, partial(free_step, effort=0))
    ahead = _replayed(lesson, problem, FreeAheadPlanner(problem.chain))
    found = f"{ahead:.2f} % of all state moved a change, {free:.2f} % by free steps"
    return Worked(
        None, f"from {len(lesson.sizes) - 1} changes of size: {found}", problem.chain, ahead, free
    )


def learnt_of(worked: Worked) -> Learnt:
    """Return the part of a lesson that the core uses."""
    planner: MadePlanner | None = None
    if worked.pays and worked.chain is not None:
        planner = FreeAheadPlanner(worked.chain)
    elif worked.pays and worked.values is not None:
        planner = TransitionPlanner(worked.values)
    return Learnt(planner, worked.reason, worked.ahead_percent, worked.single_percent)


def _problem(lesson: Lesson) -> ProjectionProblem:
    chain = _chain(lesson)
    work = lesson.work if sum(lesson.work) > 0 else (1.0,) * len(lesson.work)
    tau = max(
        attainable_tau(work, size, lesson.tau, contiguous=lesson.contiguous) for size in chain.sizes
    )
    return ProjectionProblem.of(work, lesson.state, tau, chain)


def _chain(lesson: Lesson) -> MigrationChain:
    directed = len(lesson.sizes) - 1 >= _DIRECTED_FROM
    gamma = _GAMMA if lesson.contiguous else _FREE_GAMMA
    return migration_chain(lesson.sizes, ChainSettings(gamma=gamma, directed=directed))


def _replayed(lesson: Lesson, problem: ProjectionProblem, planner: StepPlanner) -> float:
    """Return the state moved per change, in percent of all, if ``planner`` had planned the past."""
    sizes = lesson.sizes[-_REPLAYED - 1 :]
    total = float(sum(problem.state)) or 1.0
    bounds = even_bounds([float(each) for each in problem.work], sizes[0])
    current = Assignment.from_intervals(list(pairwise(bounds)), tasks=len(problem.work))
    stages, queries = stages_of(lesson.tasks, lesson.realtime)
    if stages:
        start = StepProblem(
            problem.work, problem.state, current, Target(sizes[0], problem.tau), stages=stages
        )
        current = Assignment(even_placement(start), sizes[0])
    moved = 0.0
    for size in sizes[1:]:
        step = StepProblem(
            problem.work,
            problem.state,
            current.widened(max(current.nodes, size)),
            Target(size, problem.tau),
            stages=stages,
            queries=queries,
        )
        if stages:
            step = attainable(step)
        plan = planner(step)
        if isinstance(plan, StepPlan):
            moved += float(plan.cost)
            current = plan.assignment
    return 100 * moved / total / max(1, len(sizes) - 1)
