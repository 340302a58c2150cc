"""Where tests of the loop begin: a loop by itself, or one on a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.core.builders import QUERY, RUN, batch, executors
from tests.core.harness import Harness

from elastream.core.events import (
    BatchObserved,
    Event,
    Instruction,
    Log,
    QueryJoined,
)
from elastream.core.migrator.moving import Moving
from elastream.core.policy import Movement, Policy, Timeouts
from elastream.core.state import LoopState, Transition
from elastream.core.step import start_loop, step
from elastream.model.observation import OperatorGraph
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload

__all__ = [
    "POLICY",
    "acts",
    "after",
    "after_batches",
    "attached",
    "harness",
    "kinds",
    "reasons",
    "until_moving",
]

POLICY = Policy(
    max_executors=4,
    patience=2,
    cooldown_s=5,
    timeouts=Timeouts(smoothing_s=0.1),
    movement=Movement(moves_per_batch=2),
    planner="single-step",
)


def harness(
    rates: float | dict[str, float] = 1600,
    *,
    policy: Policy = POLICY,
    number: int = 2,
    slots: int = 10,
    tasks: int = 8,
) -> Harness:
    """Tasks of a millisecond a row: 1,600 rows a second keep 1.6 cores busy.

    Rates given by query may be changed by the test as time passes.
    """
    by_query = rates if isinstance(rates, dict) else {QUERY: float(rates)}
    workloads = [
        even_workload(tasks, lambda _, name=name: by_query[name], name=name)  # type: ignore[misc]
        for name in by_query
    ]
    settings = ClusterSettings(executors=number, slots=slots)
    return Harness(SimulatedCluster(workloads, settings), policy)


def until_moving(run: Harness) -> Moving:
    """Let batches pass until tasks move."""
    for _ in range(20):
        run.batches(1)
        if isinstance(run.state.phase, Moving):
            return run.state.phase
    raise AssertionError("no migration began")


def attached(
    alive: str | Sequence[str],
    *,
    policy: Policy = POLICY,
    queries: Mapping[str, int] | None = None,
    cold: Sequence[str] = (),
) -> LoopState:
    """A loop at rest on these executors, whose queries have this many tasks and ran nothing."""
    state, _ = start_loop(policy, executors(*alive, cold=cold), now_ms=0)
    for name, tasks in (queries or {QUERY: 0}).items():
        graph = OperatorGraph({0: None})
        state, _ = step(state, QueryJoined(0, name, RUN, graph, tasks))
    return state


def after_batches(
    state: LoopState, number: int, where: Mapping[int, str] | Sequence[str]
) -> LoopState:
    """The loop after a batch of 100 ms a task."""
    return step(state, BatchObserved(batch(number, where)))[0]


def after(state: LoopState, *events: Event) -> Transition:
    """The loop after these events, and all that it logged."""
    reports: tuple[Instruction, ...] = ()
    for event in events:
        state, more = step(state, event)
        reports += more
    return state, reports


def kinds(reports: Sequence[Instruction]) -> list[str]:
    return [each.decision.kind for each in reports if isinstance(each, Log)]


def reasons(reports: Sequence[Instruction]) -> list[str]:
    return [each.decision.reason for each in reports if isinstance(each, Log)]


def acts(reports: Sequence[Instruction]) -> list[Instruction]:
    return [each for each in reports if not isinstance(each, Log)]
