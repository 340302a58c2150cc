"""A driver for tests: instructions are carried out on a simulated cluster when the test says so.

It keeps every event and instruction, checks what must hold at each of them, and can replay the
whole run.
"""

from __future__ import annotations

from collections import deque

from elastream.control.decisions import Decision
from elastream.control.events import (
    Action,
    ActionFailed,
    Answer,
    BatchObserved,
    Event,
    Grow,
    GrowFinished,
    Instruction,
    Log,
    Place,
    Plan,
    PlanMade,
    Release,
    ReleaseFinished,
    Warm,
    WarmFinished,
)
from elastream.control.observation import BatchObservation
from elastream.control.planning import route
from elastream.control.policy import Policy
from elastream.control.state import LoopState
from elastream.control.step import started, step
from elastream.model.errors import ElastreamError
from elastream.simulation.cluster import SimulatedCluster

__all__ = ["Harness"]


class Harness:
    def __init__(self, cluster: SimulatedCluster, policy: Policy) -> None:
        self.cluster = cluster
        self.policy = policy
        self.first, told = started(policy, cluster.executors())
        self.state: LoopState = self.first
        self.events: list[Event] = []
        self.told: list[tuple[Instruction, ...]] = [told]
        self.pending: deque[Action] = deque()
        self.last_batch: BatchObservation | None = None
        cluster.subscribe(self._heard)

    @property
    def decisions(self) -> list[Decision]:
        return [i.decision for told in self.told for i in told if isinstance(i, Log)]

    @property
    def kinds(self) -> list[str]:
        return [decision.kind for decision in self.decisions]

    def feed(self, event: Event) -> tuple[Instruction, ...]:
        before = len(self.events)
        self.events.append(event)
        self.state, told = step(self.state, event)
        self.told.append(told)
        self._check(event, told)
        for instruction in told:
            match instruction:
                case Place(wanted=wanted):
                    self.cluster.place(wanted)
                case Log():
                    pass
                case action:
                    self.pending.append(action)
        assert len(self.events) == before + 1
        return told

    def answer(self) -> None:
        """Carry out the action that has waited longest."""
        self.feed(self._answer(self.pending.popleft()))

    def batches(self, number: int, *, answering: bool = True) -> None:
        """Let batches pass; every action is answered before the next batch."""
        for _ in range(number):
            self.cluster.run_batch()
            while answering and self.pending:
                self.answer()

    def replayed(self) -> list[tuple[Instruction, ...]]:
        state, told = started(self.policy, self.first.executors)
        again = [told]
        for event in self.events:
            state, told = step(state, event)
            again.append(told)
        return again

    def _heard(self, batch: BatchObservation) -> None:
        self.last_batch = batch
        self.feed(BatchObserved(batch, self.cluster.executors()))

    def _answer(self, action: Action) -> Answer:
        try:
            match action:
                case Grow(ticket=ticket, total=total):
                    return GrowFinished(ticket, self.cluster.grow(total, timeout_s=1))
                case Warm(ticket=ticket, ids=ids):
                    self.cluster.warm(ids)
                    return WarmFinished(ticket)
                case Plan(ticket=ticket, order=order):
                    return PlanMade(ticket, route(order))
                case Release(ticket=ticket, ids=ids):
                    self.cluster.release(ids)
                    return ReleaseFinished(ticket)
        except ElastreamError as error:
            return ActionFailed(action.ticket, str(error))

    def _check(self, event: Event, told: tuple[Instruction, ...]) -> None:
        policy = self.policy
        places = [i for i in told if isinstance(i, Place)]
        assert len(places) <= 1, "one mini-migration a batch"
        assert not places or isinstance(event, BatchObserved), "tasks are placed between batches"
        for instruction in told:
            if policy.advise_only:
                assert isinstance(instruction, Log | Plan), "advice changes nothing"
            match instruction:
                case Place(wanted=wanted):
                    assert wanted
                    assert policy.moves_per_batch is None or len(wanted) <= policy.moves_per_batch
                    size = sum(self.state.load.tasks[task].state_bytes for task in wanted)
                    limit = policy.bytes_per_batch
                    assert limit is None or len(wanted) == 1 or size <= limit
                    assert set(wanted.values()) <= self.state.alive, "moves lead to the living"
                case Grow(total=total):
                    assert policy.min_executors <= total <= policy.max_executors
                case Release(ids=ids):
                    assert not set(ids) & set(self.cluster.where().values()), "drained first"
                    assert len(self.state.alive - set(ids)) >= policy.min_executors
                case _:
                    pass
