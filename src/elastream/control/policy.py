"""What the user asks of the loop: bounds, targets and how gently to move.

A policy is checked when it is made, before anything starts; a wrong field is named in a
:class:`~elastream.model.errors.ProblemError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from elastream.model.checks import amount, count, shown
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan

__all__ = ["MadePlanner", "Planner", "PlannerName", "Policy"]

PlannerName = Literal["single-step", "free-step"]
"""``single-step``: an executor holds consecutive tasks. ``free-step``: it holds any tasks."""


class MadePlanner(Protocol):
    """A planner that somebody made for this query, as ``TransitionPlanner`` from stored values."""

    @property
    def name(self) -> str:
        """What the log calls it."""

    @property
    def contiguous(self) -> bool:
        """Whether it needs and gives consecutive tasks on every executor."""

    def __call__(self, problem: StepProblem, /) -> StepPlan | Infeasible:
        """Return a plan, or why there is none."""


Planner = PlannerName | MadePlanner


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The bounds within which the loop decides. Times are in seconds of the stream."""

    max_executors: int
    """Never more executors than this. No default: it bounds what the query may cost."""
    min_executors: int = 1
    """Never fewer executors than this."""
    target_utilisation: float = 0.7
    """Share of its cores' time that an executor should be busy with stateful tasks."""
    hysteresis: float = 0.1
    """Half the width of the band around the target, as a utilisation: scale out above target
    plus this, scale in only to where the utilisation stays below target minus this."""
    cooldown_s: float = 60.0
    """How long after a change, or an abandoned one, nothing new is decided."""
    patience: int = 3
    """How many batches in a row must call for a change before it is made."""
    smoothing_s: float = 10.0
    """Half-life of an observation."""
    tau: float = 0.2
    """An executor may hold ``(1 + tau)`` times the mean load. Widened, and logged, where the tasks
    are too few or too uneven to be spread so evenly."""
    planner: Planner = "free-step"
    """How the tasks that move are chosen: one of the names, or a planner that was made for it."""
    moves_per_batch: int | None = 4
    """Most tasks that move in one batch; ``None`` for no bound."""
    bytes_per_batch: int | None = 64 << 20
    """Most state that moves in one batch; a task larger than this moves alone.
    ``None`` for no bound."""
    tries: int = 5
    """How many batches a move is asked for before the migration is abandoned."""
    replans: int = 3
    """How often one migration is planned anew after a disturbance before it is abandoned."""
    warm_up: bool = True
    """Whether new executors are warmed before they get state."""
    settle_batches: int = 5
    """How many batches the query may take, after new executors were warmed, to work off what that
    held up, before state moves. Only while batches get shorter by themselves."""
    grow_timeout_s: float = 60.0
    """How long to wait for executors that were asked for, on the pool's clock."""
    action_timeout_s: float = 300.0
    """How long to wait for any one action of the runtime before it is given up."""
    trigger_s: float | None = None
    """The trigger interval that batches should keep. What a batch spends outside its stateful
    tasks is then time the executors cannot use. ``None``: batches may grow with the load."""
    catch_up_s: float = 120.0
    """In how long a backlog should be worked off, where the source can tell it."""
    advise_only: bool = False
    """Decide, plan and log, but change nothing."""

    def __post_init__(self) -> None:
        count("min_executors", self.min_executors, least=1)
        count("max_executors", self.max_executors, least=1)
        if self.min_executors > self.max_executors:
            raise ProblemError(
                "min_executors", f"{self.min_executors} is above max_executors {self.max_executors}"
            )
        self._check_band()
        for name in ("patience", "tries"):
            count(name, getattr(self, name), least=1)
        for name in ("replans", "settle_batches"):
            count(name, getattr(self, name))
        for name in ("moves_per_batch", "bytes_per_batch"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name), least=1)
        for name in ("cooldown_s", "tau"):
            amount(name, getattr(self, name))
        for name in ("smoothing_s", "grow_timeout_s", "action_timeout_s", "catch_up_s"):
            _positive(name, getattr(self, name))
        if self.trigger_s is not None:
            _positive("trigger_s", self.trigger_s)
        if self.action_timeout_s < self.grow_timeout_s:
            below = f"{self.action_timeout_s:g} is below grow_timeout_s {self.grow_timeout_s:g}"
            raise ProblemError("action_timeout_s", below)
        if not callable(self.planner) and self.planner not in get_args(PlannerName):
            known = " or ".join(get_args(PlannerName))
            raise ProblemError("planner", f"{shown(self.planner)} is not one; use {known}")

    def _check_band(self) -> None:
        target = _positive("target_utilisation", self.target_utilisation)
        if target > 1:
            raise ProblemError("target_utilisation", f"{target:g} is above 1")
        band = amount("hysteresis", self.hysteresis)
        if not band < target:
            raise ProblemError("hysteresis", f"{band:g} is not below target_utilisation {target:g}")
        if target + band > 1:
            raise ProblemError(
                "hysteresis", f"{band:g} above target_utilisation {target:g} is more than 1"
            )

    @property
    def planner_name(self) -> str:
        """What the log calls the planner."""
        return self.planner if isinstance(self.planner, str) else self.planner.name

    @property
    def contiguous(self) -> bool:
        """Whether every executor shall hold consecutive tasks."""
        planner = self.planner
        return planner == "single-step" if isinstance(planner, str) else planner.contiguous

    @property
    def high_mark(self) -> float:
        """Utilisation above which the query scales out."""
        return self.target_utilisation + self.hysteresis

    @property
    def low_mark(self) -> float:
        """Utilisation that a scale-in must not exceed."""
        return self.target_utilisation - self.hysteresis


def _positive(field: str, value: float) -> float:
    if amount(field, value) == 0:
        raise ProblemError(field, "0 is not positive")
    return value
