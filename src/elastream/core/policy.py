"""What the user asks of the loop: bounds, a goal, and how gently to move.

A policy is checked when it is made, before anything starts; a wrong field is named in a
:class:`~elastream.model.errors.ProblemError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from inspect import signature
from math import ceil
from typing import Literal, get_args

from elastream.core.application import GoalBounds
from elastream.core.goal import Goal, MadePlanner
from elastream.core.learning import LearningPlanner
from elastream.core.periods import Period
from elastream.core.store_memory import StoreMemory
from elastream.model.checks import abbreviate, count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream.model.words import printable
from elastream.registry import GOALS, PLANNERS, installed, load

Planner = str | MadePlanner
"""The name of a planner that is installed, or one that was made for the application.

``free-step``: an executor holds any tasks. ``single-step``: it holds consecutive tasks.
``free-ahead`` and ``transition``: any, or consecutive, tasks, chosen with the changes to come in
view, as learnt from past ones; free-step, or single-step, while too little is known."""


CopySource = Literal["faster", "executor", "storage"]
"""Where copies of state come from: the storage of the checkpoint, or the executor that owns it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """How state moves to other executors: how much at a time, and copied how."""

    moves_per_batch: int | None = 4
    """Most tasks of a query that move in one batch of it; ``None`` for no bound."""
    bytes_per_batch: int | None = 64 << 20
    """Most state of a query that moves in one batch; a task larger than this moves alone.
    ``None`` for no bound."""
    copy_ahead: bool = True
    """Whether state is copied to where its task will go before that moves, while the query runs, so
    that the batch of the move loads nothing. Where it cannot be, the move is as without."""
    copy_least_bytes: int = 64 << 20
    """A task with less state is not worth a copy: it loads that in its batch. Copies take CPU time
    and disk from the query while they are made; the slower the storage of the checkpoint is, the
    less state is worth one."""
    copy_bytes: int = 4 << 30
    """Most state that is copied ahead at a time; a plan that moves more does it in rounds. Copies
    need as much room on the disks of the executors that they are brought to."""
    copy_source: CopySource = "storage"
    """Where copies come from. ``storage``: from the checkpoint. ``executor``: from the executor
    that owns the state. ``faster``: from there, unless storage was measured to be quicker. State
    that its owner cannot send comes from the checkpoint in any case."""
    standby_bytes: int = 1 << 30
    """Most state that has a standby copy; tasks with much of it come first."""
    warm_up: bool = True
    """Whether new executors are warmed before they get state."""
    settle_batches: int = 5
    """How many batches a query may take, after new executors were warmed, to work off what that
    held up, before state moves. Only while batches get shorter by themselves."""
    tries: int = 5
    """How many batches a move is requested for before the change is abandoned."""
    replans: int = 3
    """How often one change is planned again after a disturbance before it is abandoned."""

    def __post_init__(self) -> None:
        for name in ("moves_per_batch", "bytes_per_batch"):
            if getattr(self, name) is not None:
                count(f"movement.{name}", getattr(self, name), least=1)
        for name in ("copy_bytes", "standby_bytes", "tries"):
            count(f"movement.{name}", getattr(self, name), least=1)
        for name in ("copy_least_bytes", "settle_batches", "replans"):
            count(f"movement.{name}", getattr(self, name))
        if self.copy_source not in get_args(CopySource):
            known = ", ".join(get_args(CopySource))
            wrong = f"{abbreviate(self.copy_source)} is not one; use {known}"
            raise ProblemError("movement.copy_source", wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long the loop waits, and over how long it averages; in seconds."""

    smoothing_s: float = 10.0
    """Half-life of an observation."""
    idle_s: float = 60.0
    """How long nothing must have run before the last executor is given back, where
    ``min_executors`` is 0."""
    copy_s: float = 120.0
    """How long a change waits for copies before it moves without them."""
    grow_s: float = 60.0
    """How long to wait for requested executors."""
    action_s: float = 300.0
    """How long any one action of the runtime may take before it is given up."""
    call_s: float = 30.0
    """How long a quick call on the runtime may take before it counts as stuck."""

    def __post_init__(self) -> None:
        non_negative("timeouts.idle_s", self.idle_s)
        for name in ("smoothing_s", "copy_s", "grow_s", "action_s", "call_s"):
            positive(f"timeouts.{name}", getattr(self, name))
        if self.action_s < self.grow_s:
            below = f"{self.action_s:g} is below timeouts.grow_s {self.grow_s:g}"
            raise ProblemError("timeouts.action_s", below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The bounds within which the loop decides."""

    max_executors: int
    """Never more executors than this. No default: it bounds what the application may cost."""
    min_executors: int = 1
    """Never fewer executors than this. With 0 an application that has nothing to do gives all of
    them back, and asks for one as soon as a batch wants to run."""
    goal: Goal = field(default_factory=lambda: goal_named("utilisation"))
    """What the number of executors and the places of tasks shall achieve."""
    planner: Planner = "free-step"
    """How the tasks that move are chosen, where the goal does not say: one of the names, or a
    planner that was made for the application."""
    tau: float = 0.2
    """An executor may hold ``(1 + tau)`` times the mean load. Widened, and logged, where the tasks
    are too few or too uneven to be spread so evenly."""
    patience: int = 3
    """How many batches in a row, of every query that runs, must call for a change."""
    cooldown_s: float = 60.0
    """How long after a change, or an abandoned one, nothing new is decided."""
    spares: int = 0
    """How many executors more than work are kept ready, warm and without state. A scale-out takes
    them at once. They cost what executors cost, and count towards ``max_executors``. After a
    scale-in none is kept until the load is near the next scale-out."""
    standbys: int = 0
    """How many copies of its state a task keeps on other executors, 0 or 1. A copy follows every
    batch; when the executor of the task is lost, the task goes to its copy and loads nothing."""
    state_bytes_per_executor: int | None = None
    """Most state that an executor may hold; ``None`` for no limit."""
    largest_step: int | None = None
    """Most executors that one change of a goal adds or gives back; ``None`` for no limit."""
    excluded_periods: tuple[str, ...] = ()
    """When nothing is changed unless somebody asks for it or an executor is lost, by the clocks of
    the system: ``"08:00-09:30"``, ``"Mon-Fri 22:00-06:00"``."""
    repartition: bool = False
    """Whether a query that has too few partitions may be paused, at most once an hour, and go on
    with more of them. It needs functions that start queries again: ``restart`` of ``attach``."""
    advise_only: bool = False
    """Decide, plan and log, but change nothing."""
    movement: Movement = Movement()
    """How state moves."""
    timeouts: Timeouts = Timeouts()
    """How long the loop waits."""

    def __post_init__(self) -> None:
        count("min_executors", self.min_executors)
        count("max_executors", self.max_executors, least=1)
        if self.min_executors > self.max_executors:
            above = f"{self.min_executors} is above max_executors {self.max_executors}"
            raise ProblemError("min_executors", above)
        count("spares", self.spares)
        if self.spares and self.min_executors + self.spares > self.max_executors:
            room = f"min_executors {self.min_executors} and max_executors {self.max_executors}"
            raise ProblemError("spares", f"{self.spares} have no room between {room}")
        if count("standbys", self.standbys) > 1:
            raise ProblemError("standbys", f"{self.standbys} copies are more than one")
        count("patience", self.patience, least=1)
        for name in ("state_bytes_per_executor", "largest_step"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name), least=1)
        for number, period in enumerate(self.excluded_periods):
            Period.of(f"excluded_periods[{number}]", period)
        for name in ("cooldown_s", "tau"):
            non_negative(name, getattr(self, name))
        for name, kind in (("movement", Movement), ("timeouts", Timeouts)):
            if not isinstance(getattr(self, name), kind):
                why = f"{abbreviate(getattr(self, name))} is not a {kind.__name__}(...)"
                raise ProblemError(name, why)
        if not callable(self.planner) and self.planner not in installed(PLANNERS):
            known = ", ".join(sorted(installed(PLANNERS)))
            raise ProblemError("planner", f"{abbreviate(self.planner)} is not one; use {known}")
        if not isinstance(self.goal, Goal):
            raise ProblemError("goal", f"{abbreviate(self.goal)} is not a goal; try Utilisation()")
        self.goal.check(self.bounds)

    @property
    def bounds(self) -> GoalBounds:
        """Between what the goal may choose."""
        return GoalBounds(
            self.min_executors,
            self.max_executors,
            self.tau,
            self.contiguous,
            idle_s=self.timeouts.idle_s,
        )

    def bounds_for(self, state_bytes: float, stores: StoreMemory | None = None) -> GoalBounds:
        """Return the bounds where the application has so much state, and its stores use that."""
        bounds, most = self.bounds, self.state_bytes_per_executor
        needs = {
            "what the state needs": 0 if most is None else ceil(state_bytes / most),
            "what the memory of state stores needs": 0 if stores is None else stores.executors,
        }
        for minimum, needed in needs.items():
            if min(bounds.most, needed) > bounds.least:
                bounds = replace(bounds, least=min(bounds.most, needed), minimum=minimum)
        return bounds

    @property
    def planner_name(self) -> str:
        """What the log calls the planner."""
        return self.planner if isinstance(self.planner, str) else self.planner.name

    @property
    def contiguous(self) -> bool:
        """Whether every executor shall hold consecutive tasks."""
        return self.loaded_planner.contiguous

    @property
    def loaded_planner(self) -> MadePlanner | LearningPlanner:
        """The planner itself."""
        return planner_named(self.planner) if isinstance(self.planner, str) else self.planner


def goal_named(name: str) -> Goal:
    """Return a goal that is installed, with its usual settings."""
    return goal_of(name, load(GOALS, name, field="goal", otherwise=", nor module:name"))


def goal_of(name: str, found: object) -> Goal:
    """Return a goal, or what a function that makes one returns, as found under ``name``."""
    if isinstance(found, type) and issubclass(found, Goal):
        settings = signature(found).parameters.values()
        if needed := [each.name for each in settings if each.default is each.empty]:
            wrong = f"{abbreviate(name)} needs {' and '.join(needed)}"
            raise ProblemError("goal", f"{wrong}: make one in a module and give module:name")
    try:
        goal = found() if callable(found) and not isinstance(found, Goal) else found
    except ProblemError:
        raise
    except Exception as error:  # whatever the function of another package raises
        why = printable(f"{type(error).__name__}: {error}")
        raise ProblemError("goal", f"{abbreviate(name)} cannot be made: {why}") from None
    if not isinstance(goal, Goal):
        raise ProblemError("goal", f"{abbreviate(name)} gives {abbreviate(goal)}, not a goal")
    return goal


def planner_named(name: str) -> MadePlanner | LearningPlanner:
    """Return a planner that is installed."""
    planner = load(PLANNERS, name, field="planner")
    acts = "learn" if isinstance(planner, LearningPlanner) else "__call__"
    parts = ("name", "contiguous", acts)
    if isinstance(planner, type) or not all(hasattr(planner, part) for part in parts):
        wrong = f"{abbreviate(name)} is not an object with {', '.join(parts)}"
        raise ProblemError("planner", wrong)
    found: MadePlanner | LearningPlanner = planner
    return found
