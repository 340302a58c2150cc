"""A driver for tests: instructions are carried out on a simulated cluster when the test says so.

It keeps every event and instruction, checks what must hold at each of them, and can replay the
whole run.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from elastream.core.decisions import Decision
from elastream.core.events import (
    Action,
    Answered,
    Ask,
    BatchObserved,
    Cancel,
    Copy,
    DropCopies,
    Event,
    Fact,
    Grow,
    Instruction,
    Learn,
    Log,
    Place,
    Plan,
    QueryJoined,
    RecordSample,
    Rehearse,
    Release,
    Repartition,
    Tick,
    Warm,
)
from elastream.core.goal import Failure, Think
from elastream.core.learning import Learning
from elastream.core.migrator.copying import Copying
from elastream.core.migrator.moving import Moving
from elastream.core.policy import Policy
from elastream.core.ports import Ticket
from elastream.core.routes import route
from elastream.core.state import LoopState
from elastream.core.step import start_loop, step
from elastream.model.errors import ElastreamError
from elastream.model.observation import BatchObservation
from elastream.testing import SimulatedCluster

__all__ = ["Harness"]


class Harness:
    def __init__(
        self, cluster: SimulatedCluster, policy: Policy, learning: Learning | None = None
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.learning = learning
        self.first = self._started()[0]
        self.state: LoopState = self.first
        self.events: list[Event] = []
        self.instructions: list[tuple[Instruction, ...]] = [self._started()[1]]
        self.pending: deque[Action] = deque()
        self.last_batch: BatchObservation | None = None
        self.places_at_once = True
        """Whether a placement is answered before anything else happens."""
        cluster.subscribe(self._on_fact)

    @property
    def decisions(self) -> list[Decision]:
        return [i.decision for entry in self.instructions for i in entry if isinstance(i, Log)]

    @property
    def kinds(self) -> list[str]:
        return [decision.kind for decision in self.decisions]

    def feed(self, event: Event) -> tuple[Instruction, ...]:
        if isinstance(event, BatchObserved):
            self.last_batch = event.batch
        self.events.append(event)
        self.state, report = step(self.state, event)
        self.instructions.append(report)
        self._check(report)
        for instruction in report:
            match instruction:
                case Place() if self.places_at_once:
                    self.feed(Answered(instruction.ticket, self._result(instruction)))
                case Cancel(ticket=ticket):
                    self.pending = deque(a for a in self.pending if a.ticket != ticket)
                case DropCopies():
                    self.cluster.drop()
                case Log() | RecordSample() | Rehearse():
                    pass
                case action:
                    self.pending.append(action)
        return report

    def answer(self) -> None:
        """Carry out the action that has waited longest."""
        action = self.pending.popleft()
        self.feed(Answered(action.ticket, self._result(action)))

    def fail(self, why: str) -> None:
        """Let the action fail that has waited longest."""
        self.feed(Answered(self.pending.popleft().ticket, Failure(why)))

    def judged(self) -> None:
        """Let batches pass until the last change is held against its prediction and logged."""
        while self.state.outcome is not None:
            self.batches(1)

    def batches(self, number: int, *, answering: bool = True) -> None:
        """Let batches pass; every action is answered before the next batch."""
        for _ in range(number):
            self.cluster.run_batch()
            while answering and self.pending:
                self.answer()

    def seconds(self, number: int, *, answering: bool = True) -> None:
        """Let time pass; every action is answered within a second."""
        for _ in range(number):
            self.cluster.advance(1.0)
            self.feed(Tick(round(self.cluster.now_ms)))
            while answering and self.pending:
                self.answer()

    def replayed(self) -> list[tuple[Instruction, ...]]:
        state, reports = self.first, self.instructions[0]
        again = [reports]
        for event in self.events:
            state, reports = step(state, event)
            again.append(reports)
        return again

    def _on_fact(self, fact: Fact) -> None:
        self.feed(fact)

    def _started(self) -> Any:
        now_ms = round(self.cluster.now_ms)
        return start_loop(
            self.policy,
            self.cluster.executors(),
            now_ms=now_ms,
            learning=self.learning,
            can_copy=self.cluster.settings.copy_s is not None,
        )

    def _result(self, action: Action) -> Any:
        try:
            match action:
                case Grow(total=total):
                    return self.cluster.grow(total, timeout_s=1, ticket=Ticket())
                case Warm(ids=ids):
                    return self.cluster.warm(ids, ticket=Ticket())
                case Plan(order=order):
                    return route(order)
                case Release(ids=ids):
                    return self.cluster.release(ids, ticket=Ticket())
                case Copy(wanted=wanted):
                    source = self.policy.movement.copy_source
                    return self.cluster.copy(wanted, source=source, ticket=Ticket())
                case Place(query=query, wanted=wanted):
                    return self.cluster.place(query, wanted, ticket=Ticket())
                case Ask(question=Think(work=work)):
                    return work()
                case Ask() | Learn() | Repartition():
                    return Failure("not here")
        except (ElastreamError, KeyError) as error:
            return Failure(str(error))

    def _check(self, reports: tuple[Instruction, ...]) -> None:
        policy = self.policy
        places = [i for i in reports if isinstance(i, Place)]
        assert len({place.query for place in places}) == len(places), "one mini-migration a batch"
        spares = {spare.id for spare in self.state.spares}
        assert not spares & self.state.observed.holders(), "spares hold no state"
        for instruction in reports:
            if policy.advise_only:
                assert isinstance(instruction, Log | Plan | RecordSample | Cancel | Rehearse), (
                    "advice acts not"
                )
            match instruction:
                case Place(wanted=wanted, query=name, lost=lost):
                    self._check_place(name, wanted, bound=not lost)
                case Copy():
                    self._check_copy(instruction)
                case Grow(total=total):
                    assert max(1, policy.min_executors) <= total <= policy.max_executors
                case Release(ids=ids):
                    self._check_release(ids)
                case _:
                    pass

    def _check_copy(self, copy: Copy) -> None:
        policy, observed, wanted = self.policy, self.state.observed, copy.wanted
        alive = {executor.id for executor in self.state.all_executors}
        assert set(wanted.values()) <= alive, "copies go to the living"
        assert all(observed.where(task) != node for task, node in wanted.items())
        sizes = {task: load.state_bytes for task, load in observed.tasks()}
        if not copy.soon:
            assert policy.standbys
            assert sum(sizes[task] for task in wanted) <= policy.movement.standby_bytes
            return
        assert policy.movement.copy_ahead
        assert isinstance(self.state.phase, Copying)
        moving = [sizes[task] for task in self.state.phase.moving]
        assert min(moving) >= policy.movement.copy_least_bytes
        assert len(moving) == 1 or sum(moving) <= policy.movement.copy_bytes

    def _check_place(self, name: str, wanted: Any, *, bound: bool) -> None:
        policy, query = self.policy, self.state.queries[name]
        assert wanted
        assert set(wanted.values()) <= self.state.alive, "moves lead to the living"
        assert {task.query for task in wanted} == {name}
        if query.idle or query.strays or not bound:
            return
        assert (
            policy.movement.moves_per_batch is None
            or len(wanted) <= policy.movement.moves_per_batch
        )
        phase = self.state.phase
        ahead = phase.target.ahead if isinstance(phase, Moving) else ()
        size = sum(query.load.tasks[task].state_bytes for task in wanted if task not in ahead)
        limit = policy.movement.bytes_per_batch
        assert limit is None or len(wanted) == 1 or size <= limit

    def _check_release(self, ids: tuple[str, ...]) -> None:
        held = self.state.observed.holders() & set(ids)
        left = len(self.state.alive - set(ids))
        assert left >= self.policy.min_executors
        if left:
            assert not held, "drained first"
        else:
            assert all(query.idle for query in self.state.queries.values()), "nothing runs"


def joined(cluster: SimulatedCluster) -> list[QueryJoined]:
    """What the cluster shows of its queries."""
    reports: list[Any] = []
    cluster.subscribe(reports.append)()
    return [fact for fact in reports if isinstance(fact, QueryJoined)]
