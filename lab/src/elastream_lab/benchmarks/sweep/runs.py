"""What the loop makes of random applications: after a scale-out, and under a steady load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from elastream import Combined, Goal, Movement, Policy, Utilisation
from elastream.core.decisions import Decision
from elastream.replication import Replication
from elastream.resilience import Resilient
from elastream.testing import SimulatedCluster, SimulatedLoop, simulated
from elastream_lab.benchmarks.sweep.applications import (
    CHANGE_S,
    MOST_EXECUTORS,
    Application,
    busiest,
    drawn,
    evenly,
)

_OTHERS: Final[Mapping[str, Goal]] = {
    "utilisation": Utilisation(),
    "keep-triggers": Utilisation(keep_triggers=True),
    "look-ahead": Utilisation(look_ahead_s=60.0),
    "combined": Combined(how_many=Utilisation(), where=Resilient()),
    "resilient": Resilient(),
}
GOALS: Final = (*_OTHERS, "replication")
_SMALL: Final = {"replication": (4, 2), "resilient": (8, 3), "combined": (8, 3)}
"""Most executors at first, and queries, where no more are planned for quickly."""
_LARGE: Final = (32, 4)
_TRIGGERS: Final = 4.0
"""A response bound, as a multiple of the longest trigger."""
_AFTER_S: Final = 240.0
_STEADY_S: Final = 600.0
_PATIENCE_S: Final = 300.0
"""How much longer it may take until no change is under way or wanted."""
_CLOSE: Final = 1.01
"""Rows are whole and loads are measured: this near to a mark is at it."""
_MOST_CHANGES: Final = 4
"""More than this under a steady load are no way to its place: once out, in, and evenly spread."""

NO_STATE: Final = "executors without state"
ABOVE: Final = "busiest above the mark, though it need not be"
TOO_FEW: Final = "more executors would have helped"
NOT_ENDED: Final = "a change did not end"
BELOW: Final = "scaled in below its load"
OSCILLATES: Final = "oscillates"


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """What an application whose load has grown has come to."""

    seed: int
    executors: int
    """At first."""
    then: int
    """At the end."""
    changes: tuple[str, ...]
    without_state: int
    """Most executors without state when a scale-out was done."""
    busiest: float
    """Share of its slots that the busiest executor keeps busy at the end."""
    possible: float
    """The same in a placement that spreads tasks evenly over as many executors."""
    at_most: float
    """The same over as many executors as there may be."""
    mark: float
    ended: bool
    """Whether no change was under way at the end."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What must not be."""
        high = self.busiest > self.mark * _CLOSE
        found = {
            NO_STATE: self.without_state > 0,
            ABOVE: high and self.possible <= self.mark,
            TOO_FEW: high and self.mark < self.possible and self.at_most <= self.mark,
            NOT_ENDED: not self.ended,
        }
        return tuple(fault for fault, is_so in found.items() if is_so)


@dataclass(frozen=True, slots=True)
class Steady:
    """What an application whose load stays the same has come to."""

    seed: int
    executors: int
    then: int
    changes: tuple[str, ...]
    load: float
    """Slots that it needs."""
    highest: float
    """Highest utilisation after a scale-in."""
    mark: float

    @property
    def faults(self) -> tuple[str, ...]:
        """What must not be."""
        into = self.changes.index("scale-in") if "scale-in" in self.changes else len(self.changes)
        found = {
            BELOW: self.highest > self.mark * _CLOSE,
            OSCILLATES: "scale-out" in self.changes[into:] or len(self.changes) > _MOST_CHANGES,
        }
        return tuple(fault for fault, is_so in found.items() if is_so)


def scale_outs(goal: str, first: int, number: int) -> Iterator[ScaleOut]:
    """Yield what applications that grow come to, one for each seed."""
    for seed in range(first, first + number):
        application = drawn(
            seed,
            busy=(0.5, 0.75),
            grown=(0.85, 1.4),
            executors=(2, _SMALL.get(goal, _LARGE)[0]),
            queries=_SMALL.get(goal, _LARGE)[1],
        )
        yield _scaled_out(application, _goal(goal, application), seed)


def steady(goal: str, first: int, number: int) -> Iterator[Steady]:
    """Yield what applications with a steady load come to, one for each seed."""
    for seed in range(first, first + number):
        most, queries = _SMALL.get(goal, _LARGE)
        application = drawn(seed, busy=(0.25, 0.95), executors=(2, most), queries=queries)
        yield _kept_steady(application, _goal(goal, application), seed)


def _goal(name: str, application: Application) -> Goal:
    if name in _OTHERS:
        return _OTHERS[name]
    longest_ms = max(each.trigger_ms for each in application.workloads)
    return Replication(response_ms=_TRIGGERS * longest_ms)


def summary(found: Sequence[ScaleOut | Steady]) -> dict[str, Any]:
    """Return how many there were, how many have which fault, and those in full."""
    names = (NO_STATE, ABOVE, TOO_FEW, NOT_ENDED, BELOW, OSCILLATES)
    faults = {name: sum(name in each.faults for each in found) for name in names}
    return {
        "applications": len(found),
        "scaled_out": sum("scale-out" in each.changes for each in found),
        "scaled_in": sum("scale-in" in each.changes for each in found),
        "faults": faults,
        "faulty": [{**asdict(each), "faults": each.faults} for each in found if each.faults],
    }


def _policy(goal: Goal) -> Policy:
    return Policy(
        max_executors=MOST_EXECUTORS,
        goal=goal,
        cooldown_s=20.0,
        movement=Movement(moves_per_batch=None, bytes_per_batch=None),
    )


def _mark(goal: Goal) -> float:
    return 1.0 if goal.marks is None else goal.marks.high


def _scaled_out(application: Application, goal: Goal, seed: int) -> ScaleOut:
    cluster = SimulatedCluster(application.workloads, application.settings)
    empty: list[int] = [0]
    kinds: list[str] = []

    def written(decision: Decision) -> None:
        if decision.kind in ("scale-out", "scale-in", "rebalance"):
            kinds.append(decision.kind)
        elif decision.kind == "done" and kinds[-1:] == ["scale-out"]:
            holders = set(cluster.where().values())
            empty.append(sum(each.id not in holders for each in cluster.executors()))

    with simulated(cluster, _policy(goal), log=written) as loop:
        cluster.advance(CHANGE_S + _AFTER_S)
        ended = _rest(cluster, loop)
        changes, where = tuple(loop.changes), cluster.where()
    work, alive = application.work(CHANGE_S), len(cluster.executors())
    return ScaleOut(
        seed,
        application.settings.executors,
        alive,
        changes,
        max(empty),
        round(busiest(work, where, application.slots), 4),
        round(evenly(work, alive, application.slots), 4),
        round(evenly(work, MOST_EXECUTORS, application.slots), 4),
        _mark(goal),
        ended,
    )


def _kept_steady(application: Application, goal: Goal, seed: int) -> Steady:
    cluster = SimulatedCluster(application.workloads, application.settings)
    load = sum(application.work(0.0).values())
    highest, kinds = [0.0], list[str]()

    def written(decision: Decision) -> None:
        if decision.kind in ("scale-out", "scale-in", "rebalance"):
            kinds.append(decision.kind)
        elif decision.kind == "done" and kinds[-1:] == ["scale-in"]:
            highest.append(load / len(cluster.executors()) / application.slots)

    with simulated(cluster, _policy(goal), log=written) as loop:
        cluster.advance(_STEADY_S)
        changes = tuple(loop.changes)
    return Steady(
        seed,
        application.settings.executors,
        len(cluster.executors()),
        changes,
        round(load, 4),
        round(max(highest), 4),
        _mark(goal),
    )


def _rest(cluster: SimulatedCluster, loop: SimulatedLoop) -> bool:
    """Wait until nothing is under way or wanted; return whether the last change has ended."""
    end_ms = cluster.now_ms + 1000 * _PATIENCE_S
    while not _is_content(loop) and cluster.now_ms < end_ms:
        cluster.advance(5.0)
    return loop.wait(0)


def _is_content(loop: SimulatedLoop) -> bool:
    last = next((each for each in reversed(loop.decisions) if each.query is not None), None)
    return loop.wait(0) and last is not None and "wanted" not in last.figures
