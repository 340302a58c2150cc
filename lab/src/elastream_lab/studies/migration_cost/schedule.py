"""A known schedule of sizes, planned on any nodes, by the papers, and without looking ahead.

The work of the whole judged month and the state it leaves; two days of four sizes each. At every
size the next three are known, and all is planned again from where tasks are, as the goal `Schedule`
of the loop does. A threshold that consecutive tasks cannot reach is widened, for all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from elastream.foresight.ahead.by_schedule import scheduled_step
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequencePlan, SequenceProblem
from elastream.model.assignment import Assignment
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.even_spread import even_bounds, even_max_load
from elastream.placement.free_step.planner import free_step
from elastream_lab.studies.figure import Curves, Figure, Value
from elastream_lab.studies.migration_cost.load import Load
from elastream_lab.studies.migration_cost.study import CostStudy

_TAUS: Final = (0.2, 0.4, 0.8)
_DAYS: Final = 2
_AHEAD: Final = 3
_EFFORT: Final = 30_000_000
"""Cells of a sequence: half a second of an ordinary core."""
_ROUNDING: Final = 1e-9
_SCHEDULE, _FREE, _SEQUENCE = "schedule", "free-step", "sequence"

Way = Callable[[StepProblem, Sequence[Target]], StepPlan | Infeasible]


def scheduled_figure(study: CostStudy) -> Figure:
    """Return what a schedule moves under each way of planning it."""
    load = study.judged.folded(study.tasks)
    low, high = load.sizes[0], load.sizes[-1]
    day = (low, (low + high) // 2, high, low + (high - low) // 4)
    rows: list[dict[str, Value]] = []
    for tau in _TAUS:
        for name, way in _WAYS.items():
            moved = _moved(load, day * _DAYS, tau, way)
            rows.append({"tau": tau, "planner": name, "state_moved_percent": moved})
    costs = {
        name: [float(row["state_moved_percent"] or 0) for row in rows if row["planner"] == name]
        for name in _WAYS
    }
    reports = "; ".join(f"{name} {', '.join(f'{c:.2f}' for c in costs[name])} %" for name in _WAYS)
    best = [min(pair) for pair in zip(costs[_FREE], costs[_SEQUENCE], strict=True)]
    return Figure(
        "a schedule",
        f"{load.name} of {load.source}, the whole month; {_DAYS} days of "
        f"{', '.join(map(str, day))} nodes",
        rows,
        Curves("tau", ("state_moved_percent",), "planner"),
        all(own <= other for own, other in zip(costs[_SCHEDULE], best, strict=True)),
        "No paper has it: a known schedule on any nodes should move no more than free steps, which "
        "do not look ahead, or the papers' sequence of consecutive tasks; a migration moves at tau "
        f"{', '.join(map(str, _TAUS))}: {reports}.",
    )


def _moved(load: Load, sizes: Sequence[int], tau: float, way: Way) -> float:
    """Return the mean state moved a migration, in % of all state."""
    work, state = tuple(load.work.sum(axis=0).tolist()), tuple(load.usual_state.tolist())
    bounds = even_bounds(work, sizes[0])
    current = Assignment.from_intervals(list(pairwise(bounds)), tasks=load.tasks)
    targets = {size: Target(size, max(tau, _least_tau(work, size))) for size in sizes}
    moved = 0.0
    for turn, size in enumerate(sizes[1:], 1):
        later = [targets[number] for number in sizes[turn + 1 : turn + 1 + _AHEAD]]
        wide = current.widened(max(current.nodes, size))
        plan = way(StepProblem(work, state, wide, targets[size]), later)
        if isinstance(plan, Infeasible):
            raise ProblemError("trace", f"tau {tau:g}: {plan.reason}")
        moved += float(plan.cost)
        current = plan.assignment
    return 100 * moved / max(float(sum(state)), 1.0) / (len(sizes) - 1)


def _least_tau(work: Sequence[int], nodes: int) -> float:
    heaviest = even_max_load(work, nodes, contiguous=True)
    return heaviest * nodes / max(sum(work), 1) * (1 + _ROUNDING) - 1


def _by_schedule(step: StepProblem, later: Sequence[Target]) -> StepPlan | Infeasible:
    found = scheduled_step(step, later, 1, effort=_EFFORT)
    return found if isinstance(found, Infeasible) else found.step


def _by_free_steps(step: StepProblem, later: Sequence[Target]) -> StepPlan | Infeasible:  # noqa: ARG001
    return free_step(step, effort=0)


def _by_sequence(step: StepProblem, later: Sequence[Target]) -> StepPlan | Infeasible:
    targets = (step.target, *later)
    known = SequenceProblem(step.work, step.state, step.current, targets)
    plan = sequence(known, effort=_EFFORT)
    return plan.steps[0] if isinstance(plan, SequencePlan) else plan


_WAYS: Final[dict[str, Way]] = {
    _SCHEDULE: _by_schedule,
    _FREE: _by_free_steps,
    _SEQUENCE: _by_sequence,
}
