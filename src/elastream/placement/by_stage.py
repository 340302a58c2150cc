"""Plan each stage by itself, with a planner of one limit: the papers' limit per operator.

For planners that know one limit on the work of a node (single-step, transition, free-ahead). The
nodes that stay are chosen once, those that keep the most state; a task of another node enters as
one without state, on the node of the task before it. The batch of a query is split over its stages
in proportion to their work, except that no stage gets less than an even spread of it takes. Then
what stages leave of their parts goes to those that move less state with it.

What the stages use together is checked afterwards: should a node be too busy, or its memory too
small, all stages are planned once more with smaller parts, and an even spread is taken where that
does not help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from elastream.model.assignment import Assignment
from elastream.model.batch import Limits
from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, Target, exact_sum
from elastream.model.plan import Infeasible, StepPlan, StepPlanner
from elastream.placement.even_spread import even_max_load, even_placement
from elastream.placement.staged.planner import misfit, most_kept
from elastream.placement.staged.shedding import shed
from elastream.placement.staged.step import Floats, Ints, StagedStep
from elastream.placement.state_ticks import plan_with_bound

_PARTS = (1.0, 0.5, 0.0)
"""Parts of the slack that stages get, one after the other while limits are not kept."""


def by_stage(
    problem: StepProblem, planner: StepPlanner, *, contiguous: bool
) -> StepPlan | Infeasible:
    """Return the plan that ``planner`` makes of each stage, or why one of them has none.

    ``contiguous`` says that it gives each node consecutive tasks.
    """
    reason = misfit(problem)
    if reason is not None:
        return Infeasible(reason)
    outcome: StepPlan | Infeasible | None = None
    for found in stagewise(problem, planner, contiguous=contiguous):
        if isinstance(found, StepPlan) and found.status != "unbalanced":
            return found
        outcome = outcome or found
    step = StagedStep.of(problem)
    bound = shed(step).bound * step.state_unit
    even = plan_with_bound(problem, even_placement(problem, contiguous=contiguous), bound)
    return even if outcome is None or even.status != "unbalanced" else outcome


def stagewise(
    problem: StepProblem, planner: StepPlanner, *, contiguous: bool
) -> Iterator[StepPlan | Infeasible]:
    """Yield plans of all stages, with smaller parts each time; they may be ``unbalanced``.

    The last is why a stage has no plan, if so. Nothing is yielded where nodes differ in slots.
    """
    step = StagedStep.of(problem)
    shares = shed(step)
    bound = shares.bound * step.state_unit
    nodes = step.nodes[most_kept(step, shares.kept)].tolist()
    stages = _stages(problem, nodes, contiguous)
    for part in _PARTS if stages else ():
        plans = _planned(problem, stages, planner, part)
        if isinstance(plans, Infeasible):
            yield plans
            return
        place = [0] * len(problem.work)
        totals = np.zeros(len(nodes))
        for stage, plan in zip(stages, plans, strict=True):
            chosen = _dealt(stage, np.array(plan.assignment.nodes_of_tasks), totals)
            for task, node in zip(stage.tasks, chosen.tolist(), strict=True):
                place[task] = nodes[node]
        if part == 1 and len(nodes) == problem.nodes_after and not contiguous:
            queries = {stage.query for stage in stages}
            if len(queries) == len(stages):  # each stage has the whole batch of its query
                alone = sum((Fraction(plan.lower_bound) for plan in plans), Fraction(0))
                bound = max(bound, alone)
        yield plan_with_bound(problem, tuple(place), bound)


def _dealt(stage: _Stage, place: Ints, totals: Floats) -> Ints:
    """Return the placement with what is on nodes that are new to the stage on the least busy ones.

    Such nodes are alike to the stage, and all its stages would use the first of them. ``totals`` is
    the work on each node so far, and grows.
    """
    new = np.ones(len(totals), dtype=np.bool_)
    new[list(stage.problem.current.nodes_of_tasks)] = False
    new[[node for _, node in stage.problem.copies]] = False
    work = np.array(stage.problem.work, dtype=np.float64)
    loads = np.bincount(place, work, len(totals))
    number = np.arange(len(totals))
    piles, hosts = np.flatnonzero(new), np.flatnonzero(new)
    piles = piles[np.argsort(-loads[piles], kind="stable")]
    number[piles] = hosts[np.argsort(totals[hosts], kind="stable")]
    moved = number[place]
    totals += np.bincount(moved, work, len(totals))
    return moved


@dataclass(frozen=True, slots=True)
class _Stage:
    """The tasks of a stage, on the nodes that stay."""

    tasks: tuple[int, ...]
    query: int
    problem: StepProblem
    """Its tau is not set; work is that of a slot."""
    least: float
    """How long an even spread of it takes."""
    mean: float

    def within(self, length: float) -> StepProblem:
        """Return the problem of keeping this length."""
        tau = max(0.0, length / self.mean - 1) if self.mean else 0.0
        alone = self.problem
        target = Target(alone.target.nodes, tau)
        return StepProblem(alone.work, alone.state, alone.current, target, alone.copies)


def _stages(problem: StepProblem, nodes: Sequence[int], contiguous: bool) -> list[_Stage]:
    """Return the stages; none where nodes have different slots, for which there is no one limit."""
    slots = {problem.slots[node] for node in nodes} if problem.slots else {1}
    if len(slots) > 1:
        return []
    each = slots.pop()
    index = {node: number for number, node in enumerate(nodes)}
    stage_of = problem.stages or (0,) * len(problem.work)
    members: list[list[int]] = [[] for _ in range(max(stage_of) + 1)]
    for task, stage in enumerate(stage_of):
        members[stage].append(task)
    copies: dict[int, list[int]] = {}
    for task, node in problem.copies:
        if node in index and problem.current.nodes_of_tasks[task] in index:
            copies.setdefault(task, []).append(index[node])
    found = []
    for stage, tasks in enumerate(members):
        homes = [index.get(problem.current.nodes_of_tasks[task]) for task in tasks]
        last = next((home for home in homes if home is not None), 0)
        filled: list[int] = []
        for home in homes:
            last = last if home is None else home
            filled.append(last)
        work: tuple[Number, ...] = tuple(problem.work[task] for task in tasks)
        if each != 1:
            work = tuple(amount / each for amount in work)
        alone = StepProblem(
            work,
            tuple(
                0 if home is None else problem.state[task]
                for task, home in zip(tasks, homes, strict=True)
            ),
            Assignment(tuple(filled), len(nodes)),
            Target(len(nodes), 0),
            frozenset((n, node) for n, task in enumerate(tasks) for node in copies.get(task, ())),
        )
        found.append(
            _Stage(
                tuple(tasks),
                problem.queries[stage] if problem.queries else 0,
                alone,
                even_max_load(work, len(nodes), contiguous=contiguous),
                exact_sum(work) / len(nodes),
            )
        )
    return found


def _planned(
    problem: StepProblem, stages: Sequence[_Stage], planner: StepPlanner, part: float
) -> list[StepPlan] | Infeasible:
    """Return a plan for each stage, within its query's limit where they can be."""
    limits = Limits.of(problem)
    plans: list[StepPlan] = []
    lengths = [0.0] * len(stages)
    for query, most in enumerate(limits.batches):
        of_query = [number for number, stage in enumerate(stages) if stage.query == query]
        split = _split([stages[number] for number in of_query], most)
        for number, length in zip(of_query, split, strict=True):
            least = stages[number].least
            length = least + part * (length - least)
            lengths[number] = max(least, min(length, limits.stages[number]))
    for number, stage in enumerate(stages):
        plan = planner(stage.within(lengths[number]))
        if isinstance(plan, Infeasible):
            return Infeasible(f"stage {number}: {plan.reason}")
        plans.append(plan)
    if part < 1:
        return plans
    for query, most in enumerate(limits.batches):
        of_query = [number for number, stage in enumerate(stages) if stage.query == query]
        slack = most - sum(plans[number].max_load for number in of_query)
        for number in sorted(of_query, key=lambda number: -plans[number].cost):
            now = plans[number]
            length = min(now.max_load + slack, limits.stages[number])
            if now.cost == 0 or length <= lengths[number] * (1 + LOAD_TOLERANCE):
                continue
            plan = planner(stages[number].within(length))
            if isinstance(plan, StepPlan) and plan.cost < now.cost:
                plans[number] = plan
                slack += now.max_load - plan.max_load
    return plans


def _split(stages: Sequence[_Stage], most: float) -> list[float]:
    """Return the length of each stage: in proportion to its work, and no less than it needs."""
    needy: set[int] = set()
    while True:
        rest = most - sum(stages[number].least for number in needy)
        means = sum(stage.mean for number, stage in enumerate(stages) if number not in needy)
        rate = max(0.0, rest / means) if means else 0.0
        more = {n for n, stage in enumerate(stages) if stage.least > rate * stage.mean}
        if more <= needy:
            break
        needy |= more
    return [max(stage.least, rate * stage.mean) for stage in stages]
