"""What a goal is: a pure function from what was observed to what is wanted.

A goal answers two questions. *How many* executors should there be (:meth:`Goal.wanted`)? And, once
they are there, *where* should tasks be (:meth:`Goal.planner`; without one the policy's planner
moves the least state)? What it remembers is a value that goes in and out. Work that takes seconds
is a question, answered later.
"""

# ruff: noqa: ARG002, B027 - a goal overrides what it needs

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from elastream.core.application import GoalBounds, Observed
from elastream.model.checks import Number
from elastream.model.migration import StepProblem
from elastream.model.observation import BatchObservation, Executor
from elastream.model.plan import Infeasible, StepPlan
from elastream.model.words import pluralize

Need = Literal["hold", "scale-out", "scale-in", "rebalance"]


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a change must reach, in the unit of a goal's marks."""

    busiest: float
    """The most that any executor may be busy after it, and any query."""
    scales: Mapping[str, float] = field(default_factory=dict)
    """What the work of a query's tasks counts, in that unit."""
    outside: float = 0.0
    """What everything but stateful tasks makes, all executors together."""
    slots: float = 1.0
    """Of an executor, in the mean: a task uses one of them, so that a stage takes at least this
    many times what its heaviest task counts."""

    def __str__(self) -> str:
        return f"busiest <= {self.busiest:.2f}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a goal wants now."""

    need: Need
    executors: int
    """How many executors there should be."""
    reason: str
    """One sentence."""
    utilisation: float | None = None
    """Mean over the executors; ``None`` while it is not known."""
    figures: Mapping[str, Number] = field(default_factory=dict)
    """The numbers behind the reason; ``wanted`` executors only where something should change."""
    firm: bool = False
    """Whether it needs no further batches to say so."""
    purpose: Purpose | None = None
    """What the change must reach; ``None``: an even spread, as far as ``tau`` asks for it."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Between what a goal keeps the utilisation of the executors."""

    low: float
    """What it must stay below after a scale-in."""
    target: float
    high: float
    """Above this the application scales out."""


@dataclass(frozen=True, slots=True)
class Think:
    """Work that may take seconds. Pure: the same work has the same result."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Probe:
    """Round trips between hosts, to be measured; the answer maps each pair to milliseconds."""

    pairs: tuple[tuple[str, str], ...]


Question = Think | Probe


@dataclass(frozen=True, slots=True)
class Failure:
    """The answer to a question that could not be answered."""

    why: str


class MadePlanner(Protocol):
    """A planner that somebody made: a goal for the moment, or a user for a query."""

    @property
    def name(self) -> str:
        """What the log calls it."""

    @property
    def contiguous(self) -> bool:
        """Whether it needs and gives consecutive tasks on every executor."""

    def __call__(self, problem: StepProblem, /) -> StepPlan | Infeasible:
        """Return a plan, or why there is none."""


class Goal(ABC):
    """A goal; its settings are its fields, checked when made."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """What the log calls it, with its main settings."""

    @property
    def marks(self) -> Marks | None:
        """Between what it keeps the utilisation; ``None`` where it keeps none."""
        return None

    def check(self, bounds: GoalBounds) -> None:
        """Raise ``ProblemError`` where the goal contradicts the bounds."""

    def check_start(self, now_ms: int, executors: tuple[Executor, ...]) -> None:
        """Raise ``ProblemError`` where it makes no sense now, on these executors."""

    def memory(self) -> Any:
        """Return what it remembers at the start."""

    def recalled(self, past: Iterable[tuple[int, float]]) -> Any:
        """Return what it remembers at the start where something is known of the past.

        That is moments in ms, in order, with the cores that stateful tasks kept busy then.
        """
        return self.memory()

    def after_batch(
        self, memory: Any, observed: Observed, batch: BatchObservation, *, disturbed: bool
    ) -> Any:
        """Return what it remembers after a batch; a ``disturbed`` one loaded or awaited state."""
        return memory

    @abstractmethod
    def wanted(self, memory: Any, observed: Observed) -> tuple[Any, Wanted, tuple[Question, ...]]:
        """Return what it remembers, what it wants, and what it asks."""

    def near_scale_out(self, memory: Any, observed: Observed) -> bool:
        """Return whether a little more load would call for executors; where in doubt, it would.

        Where it would not, no spare is kept after a scale-in.
        """
        return True

    def turning_points(self, memory: Any, observed: Observed) -> tuple[str, ...]:
        """Return what would have to change for it to want something else, a sentence each."""
        return ()

    def after_answer(
        self, memory: Any, observed: Observed, question: Question, answer: Any
    ) -> tuple[Any, Wanted | None]:
        """Return what it remembers after an answer, and what it wants now."""
        return memory, None

    def planner(self, memory: Any, observed: Observed, executors: int) -> MadePlanner | None:
        """Return who places tasks on that many executors; ``None``: the policy's planner."""
        return None

    def after_change(self, memory: Any, observed: Observed, *, done: bool) -> Any:
        """Return what it remembers when a change has ended: ``done``, or given up."""
        return memory

    def utilisation(self, observed: Observed) -> float | None:
        """Return how busy the executors are, in the mean; ``None`` while that is not known."""
        return mean_utilisation(observed)


def mean_utilisation(observed: Observed) -> float | None:
    """Return the share of its slots' time that an executor is busy, in the mean."""
    queries = observed.queries.values()
    slots = sum(executor.slots for executor in observed.executors)
    if not slots or not any(query.load.measured for query in queries):
        return None
    outside = sum(observed.outside(executor.id) for executor in observed.executors)
    own = sum(observed.slots_busy(query, query.load.work) for query in queries)
    return (own + outside) / slots


def within_bounds(observed: Observed) -> Wanted | None:
    """Return what the bounds alone call for; ``None`` where they are kept."""
    alive, bounds = len(observed.executors), observed.bounds
    if alive < bounds.least:
        reason = f"{pluralize(alive, 'executor')} alive, below {bounds.minimum} of {bounds.least}"
        return Wanted("scale-out", bounds.least, reason, figures={"wanted": bounds.least})
    if alive > bounds.most:
        reason = f"{pluralize(alive, 'executor')} alive, above the maximum of {bounds.most}"
        return Wanted("scale-in", bounds.most, reason, figures={"wanted": bounds.most})
    idle_s = observed.idle_s
    if alive and bounds.least == 0 and observed.idle and idle_s >= bounds.idle_s:
        reason = f"nothing has run for {idle_s:.0f} s, and the state is in the checkpoint"
        return Wanted("scale-in", 0, reason, figures={"wanted": 0}, firm=True)
    if not alive:
        return Wanted("hold", 0, "no executor is alive, and nothing waits for one")
    return None


def allowed(wanted: Wanted, observed: Observed) -> Wanted:
    """Return what is wanted, cut to the bounds; a hold where nothing is left of it."""
    bounds, alive = observed.bounds, len(observed.executors)
    executors = min(max(wanted.executors, bounds.least), bounds.most)
    if wanted.need == "hold" or executors == wanted.executors:
        return wanted
    reason = (
        f"{wanted.reason}; {wanted.executors} wanted, allowed are {bounds.least} to {bounds.most}"
    )
    moot = {"scale-out": executors <= alive, "scale-in": executors >= alive}.get(wanted.need, False)
    need: Need = "hold" if moot else wanted.need
    return replace(wanted, need=need, executors=executors, reason=reason)
