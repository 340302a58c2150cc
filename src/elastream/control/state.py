"""What the loop remembers between events. All of it, so that a step is a pure function.

What is wanted, what has been asked for and what is seen are kept apart: the wanted change is the
phase's intent, the request under way its action, and the truth is ``load`` and ``executors``,
which only events about the runtime touch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from elastream.control.analyse import Need
from elastream.control.decisions import Decision, Kind
from elastream.control.events import Action, Instruction, Log
from elastream.control.observation import Executor, TaskId
from elastream.control.policy import Policy
from elastream.control.smoothing import SmoothedLoad
from elastream.model.checks import Number

__all__ = [
    "RECENT_BATCHES",
    "Awaiting",
    "Change",
    "Detached",
    "Intent",
    "Locating",
    "LoopState",
    "Migrating",
    "Phase",
    "Progress",
    "Settling",
    "Signal",
    "Steady",
    "Transition",
    "listed",
    "noted",
]

RECENT_BATCHES = 10
"""A migration is compared with the median of so many batches before its first move."""

_MOST_LISTED = 8

Change = Literal["scale-out", "scale-in", "rebalance", "move"]


@dataclass(frozen=True, slots=True)
class Intent:
    """A change that was decided."""

    change: Change
    before: int
    """How many executors were alive then."""
    executors: int
    """How many there should be."""
    reason: str
    replans: int = 0
    """How often it had to be planned anew."""
    usual_ms: float | None = None
    """Median of the last batches before it was decided; ``None`` where none was seen."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a migration has come."""

    tasks_moved: int = 0
    bytes_moved: int = 0
    batches: int = 0
    """Batches from the first move on."""
    worst_batch_ms: float | None = None
    """The longest of them; ``None`` before the first."""
    median_batch_ms_before: float | None = None
    """Median of the batches before the first move; ``None`` where none was seen."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Nothing is under way."""


@dataclass(frozen=True, slots=True)
class Awaiting:
    """An action was asked for and has not been answered."""

    intent: Intent
    action: Action
    since_ms: int | None
    """Time of the stream when it was asked for."""
    progress: Progress = Progress()


@dataclass(frozen=True, slots=True)
class Locating:
    """A plan is wanted, and the next batch must first show where every task is."""

    intent: Intent
    since_ms: int | None
    """Time of the stream when it was first wanted."""
    progress: Progress = Progress()


@dataclass(frozen=True, slots=True)
class Settling:
    """New executors are there; the query works off what their start held up."""

    intent: Intent
    last_ms: float
    """Duration of the batch before."""
    left: int
    """How many batches may still pass."""
    progress: Progress = Progress()


@dataclass(frozen=True, slots=True)
class Migrating:
    """Tasks are moving."""

    intent: Intent
    goal: Mapping[TaskId, str]
    """Where every task shall be."""
    steps: tuple[tuple[TaskId, ...], ...]
    """The mini-migrations, in order; the first that is not where it should be is worked on."""
    leaving: tuple[str, ...] = ()
    """Executors to be released once they are drained."""
    placed: tuple[TaskId, ...] = ()
    """Tasks whose move was asked for after the last batch."""
    tries: int = 0
    """How many batches in a row have not obeyed."""
    progress: Progress = Progress()


@dataclass(frozen=True, slots=True)
class Detached:
    """The loop has left the query."""


Phase = Steady | Awaiting | Locating | Settling | Migrating | Detached


@dataclass(frozen=True, slots=True)
class Signal:
    """What the last batches called for."""

    need: Need = "hold"
    batches: int = 0
    """For how many batches in a row."""

    def heard(self, need: Need) -> Signal:
        """Return the signal after one more batch."""
        return Signal(need, self.batches + 1 if need == self.need else 1)


@dataclass(frozen=True, slots=True)
class LoopState:
    """The loop between two events."""

    policy: Policy
    load: SmoothedLoad = field(default_factory=SmoothedLoad)
    executors: tuple[Executor, ...] = ()
    """Those alive, oldest first, when last heard of."""
    phase: Phase = Steady()
    signal: Signal = Signal()
    changed_at_ms: int | None = None
    """Time of the stream when the last change ended, well or not."""
    recent_ms: tuple[float, ...] = ()
    """Durations of the last batches outside migrations, at most ``RECENT_BATCHES``."""
    next_ticket: int = 1

    @property
    def alive(self) -> frozenset[str]:
        """Ids of the executors alive."""
        return frozenset(executor.id for executor in self.executors)

    def steady(self) -> LoopState:
        """Return the state after a change has ended: nothing under way, the cooldown begins."""
        return replace(self, phase=Steady(), signal=Signal(), changed_at_ms=self.load.at_ms)


Transition = tuple[LoopState, tuple[Instruction, ...]]
"""What a step returns: the state after it, and what the driver shall do."""


def listed(names: Sequence[str]) -> str:
    """Return names for a reason, the first few of many."""
    return ", ".join(names[:_MOST_LISTED]) + (", ..." if len(names) > _MOST_LISTED else "")


def noted(
    state: LoopState,
    kind: Kind,
    reason: str,
    *,
    utilisation: float | None = None,
    figures: Mapping[str, Number] | None = None,
) -> Log:
    """Return the instruction to log a decision taken in ``state``."""
    return Log(
        Decision(
            at_ms=state.load.at_ms,
            batch=state.load.batch,
            kind=kind,
            reason=reason,
            executors=len(state.executors),
            utilisation=None if utilisation is None else round(utilisation, 4),
            figures=figures or {},
        )
    )
