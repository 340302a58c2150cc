"""A planner's turn: several migrations of one stream, and what each did to the wait of its rows.

The same code plays on real executors and on the simulated cluster: the loop carries every plan out,
all at once between two batches, as the papers' strategies are compared. Executors that a plan
leaves without state stay, so nothing that is measured here is the start of a process: that is the
same under every planner, and ``elastream bench migration`` has it. A migration is asked for before
it is planned. Its *delay* is that of the rows due in the seconds that follow; what it adds, and
when the query is steady again, is by the definitions of that benchmark
(:mod:`elastream_lab.mechanisms.trace`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

import numpy as np

from elastream.core.policy import Movement, Policy
from elastream.core.state import LoopState
from elastream.goals.by_hand import ByHand
from elastream.model.errors import ElastreamError, ProblemError
from elastream.model.migration import StepProblem, Target
from elastream.model.observation import TaskId
from elastream.model.plan import StepPlan
from elastream_lab.mechanisms.trace import Resize, Trace, measured
from elastream_lab.studies.machine import MachineTimes, stolen_share
from elastream_lab.studies.response.planning import Planning, step_problem


def by_hand(executors: int) -> Policy:
    """Return the policy that does what it is reported, all of it between two batches."""
    return Policy(
        min_executors=executors,
        max_executors=executors,
        goal=ByHand(),
        movement=Movement(moves_per_batch=None, bytes_per_batch=None, copy_ahead=False),
        cooldown_s=0.0,
    )


class Steered(Protocol):
    """An attachment, or the loop of a simulated cluster."""

    @property
    def state(self) -> LoopState:
        """What the loop knows."""

    def move(self, placement: Mapping[TaskId, str], /) -> None:
        """Ask for a placement."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where migrations happen."""

    loop: Steered
    now_ms: Callable[[], float]
    settle: Callable[[], None]
    """Returns when no change is under way."""
    wait_until: Callable[[float], None]
    """Lets time pass up to a moment in ms."""
    asked: Callable[[int], None] = lambda _size: None
    """Hears the size that is asked for, at that moment."""
    load: Callable[[], float | None] = lambda: None
    """Tells how much the machine has to do."""
    times: Callable[[], MachineTimes | None] = lambda: None
    """Tells what the machine did so far, where there is one."""

    @property
    def executors(self) -> tuple[str, ...]:
        """Those alive, oldest first: the nodes that plans number."""
        return tuple(executor.id for executor in self.loop.state.all_executors)

    def problem(self, size: int, tau: float) -> StepProblem:
        """Return the migration to ``size`` nodes from the truth of this moment."""
        observed, nodes = self.loop.state.observed, self.executors
        tasks = list(observed.tasks())
        places = [nodes.index(observed.where(task)) for task, _ in tasks]
        work = [load.work for _, load in tasks]
        state = [round(load.state_bytes) for _, load in tasks]
        return step_problem(work, state, places, len(nodes), Target(size, tau))

    def carry_out(self, plan: StepPlan) -> bool:
        """Move what the plan moves; return whether all of it came to where it should be."""
        observed, nodes = self.loop.state.observed, self.executors
        tasks = [task for task, _ in observed.tasks()]
        goal = {tasks[move.task]: nodes[move.target] for move in plan.moves}
        if not goal:
            return True
        self.loop.move(goal)
        self.settle()
        now = self.loop.state.observed
        return all(now.where(task) == node for task, node in goal.items())


@dataclass(frozen=True, slots=True)
class Case:
    """What a turn is a turn of."""

    application: str
    window: int
    repeat: int


@dataclass(frozen=True, slots=True)
class Turned:
    """One migration as it was carried out."""

    planner: str
    change: Resize
    plan: StepPlan
    problem: StepProblem
    reached: bool
    """Whether every task came to where the plan has it."""
    load: float | None
    stolen: float
    """Share of the time around it that the host of a virtual machine kept for others."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one migration came to: a row of the raw figures."""

    application: str
    window: int
    repeat: int
    planner: str
    before: int
    after: int
    seconds: float
    """Over how long the delay is measured."""
    mean_ms: float
    p99_ms: float
    added_p99_ms: float | None
    settled_s: float
    state_moved_percent: float
    tasks_moved: int
    imbalance: float
    """How far the heaviest node is above the mean after it, as planned."""
    load: float | None = None
    """Of the machine when it was asked for, its kernel's mean over a minute; ``None``: none was."""
    stolen: float | None = None
    """Share of the time around it that the host kept for others; ``None``: unknown."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a row."""
        return asdict(self)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Measured:
        """Return what a row reported; raises ``ProblemError`` where it is none."""
        names = [field.name for field in fields(cls)]
        if not isinstance(row, Mapping) or not {*names} - {"load", "stolen"} <= row.keys():
            raise ProblemError("measured", "was not written by this study")
        known: dict[str, Any] = {name: row.get(name) for name in names}
        return cls(**known)


def turn(
    stage: Stage, planning: Planning, sizes: tuple[int, ...], seconds: float, rest_s: float
) -> Iterator[Turned]:
    """Take the tasks to where the planner begins, then through all sizes."""
    if not stage.carry_out(planning.start(stage.problem(sizes[0], planning.tau))):
        raise ElastreamError(f"{planning.name}: the tasks did not come to where it begins")
    stage.wait_until(stage.now_ms() + 1000 * rest_s)
    for place, size in enumerate(sizes[1:], 1):
        asked_ms, load, began = stage.now_ms(), stage.load(), stage.times()
        stage.asked(size)
        problem = stage.problem(size, planning.tau)
        plan = planning.plan(problem, sizes[place + 1 :])
        reached = stage.carry_out(plan)
        done_ms = stage.now_ms()
        stage.wait_until(asked_ms + 1000 * seconds)
        change = Resize(planning.name, sizes[place - 1], size, asked_ms, done_ms, stage.now_ms())
        stolen = stolen_share(began, stage.times())
        yield Turned(planning.name, change, plan, problem, reached, load, stolen)


def measured_turn(case: Case, trace: Trace, turned: Turned, seconds: float) -> Measured | None:
    """Return what a migration came to; ``None`` where it was not carried out as planned."""
    change, plan = turned.change, turned.plan
    rows = trace.responses(trace.batches).between(change.asked_ms, change.asked_ms + 1000 * seconds)
    if not turned.reached or not len(rows.response_ms):
        return None
    figures = measured(trace, change, tau=float(turned.problem.target.tau))
    mean_load = float(sum(turned.problem.work)) / change.after
    return Measured(
        case.application,
        case.window,
        case.repeat,
        turned.planner,
        change.before,
        change.after,
        seconds,
        float(rows.response_ms.mean()),
        float(np.percentile(rows.response_ms, 99)),
        figures.added_p99_ms,
        figures.asked_to_settled_s,
        100 * float(plan.cost) / max(float(sum(turned.problem.state)), 1.0),
        len(plan.moves),
        float(plan.max_load) / mean_load - 1 if mean_load else 0.0,
        turned.load,
        turned.stolen,
    )
