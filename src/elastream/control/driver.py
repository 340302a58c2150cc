"""The thin driver: it owns the ports, turns instructions into calls and answers into events.

Nothing is decided here. A batch is heard on the monitor's thread, between two batches; what must
happen in that gap (placing tasks) and what is quick (a log line) happens there and then. What takes
its time (growing, warming, planning, releasing) goes to one background thread, so the monitor's
thread is never kept waiting. All steps are taken under one lock, in the order their events come.

A failure of the runtime becomes an event; a failure of the log is reported once to Python's
logging, and so is a batch whose executors cannot be told; should the loop itself fail, it detaches.
None of them reaches the query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from elastream.control.decisions import Decision
from elastream.control.events import (
    AbandonRequested,
    Action,
    ActionFailed,
    Answer,
    BatchObserved,
    DetachRequested,
    Event,
    Grow,
    GrowFinished,
    Instruction,
    Log,
    MoveRequested,
    Place,
    PlaceFailed,
    Plan,
    PlanMade,
    Release,
    ReleaseFinished,
    ScaleRequested,
    Warm,
    WarmFinished,
)
from elastream.control.observation import BatchObservation, TaskId
from elastream.control.planning import route
from elastream.control.policy import Policy
from elastream.control.ports import ExecutorPool, Monitor, StatePlacement
from elastream.control.state import LoopState, Transition
from elastream.control.step import started, step
from elastream.model.errors import AlreadyAttachedError, ElastreamError

__all__ = ["Background", "Controller", "Worker"]

_logger = logging.getLogger(__name__)

Background = Callable[[Callable[[], None]], None]
"""Runs a job, sooner or later, one after the other."""


class Worker:
    """A background thread that runs jobs in the order they are given, until it is closed."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def __call__(self, job: Callable[[], None]) -> None:
        """Queue ``job``."""
        self._jobs.put(job)

    def close(self) -> None:
        """End the thread after the jobs already queued; do not wait for them."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class Controller:
    """One query's loop: attached by :meth:`start`, left by :meth:`detach`.

    ``log`` is called with every decision, on whichever thread took it; ``query`` names the run of
    the query, and a second controller for the same name is refused. ``background`` runs what takes
    its time; left out, a thread of the controller's own.
    """

    def __init__(
        self,
        monitor: Monitor,
        pool: ExecutorPool,
        placement: StatePlacement,
        policy: Policy,
        log: Callable[[Decision], None],
        *,
        query: str,
        background: Background | None = None,
    ) -> None:
        self._monitor = monitor
        self._pool = pool
        self._placement = placement
        self._policy = policy
        self._log = log
        self._query = query
        self._background = background
        self._lock = threading.RLock()
        self._state: LoopState | None = None
        self._log_failed = False
        self._undo: list[Callable[[], None]] = []

    def start(self) -> Self:
        """Attach to the query and begin to listen; raises ``AlreadyAttachedError``."""
        with self._lock:
            if self._state is not None:
                raise AlreadyAttachedError(f"this controller was started before: {self._query}")
            _ATTACHED.claim(self._query)
            self._undo.append(lambda: _ATTACHED.free(self._query))
            try:
                if self._background is None:
                    self._background = worker = Worker(f"elastream {self._query}")
                    self._undo.append(worker.close)
                self._follow(started(self._policy, self._pool.executors()))
                self._undo.append(self._monitor.subscribe(self._heard))
            except BaseException:
                self._undo_all()
                raise
        return self

    def detach(self, reason: str | None = None) -> None:
        """Leave the query running as it is; what is under way is given up. Harmless if repeated."""
        if self._state is not None:
            self._feed(DetachRequested() if reason is None else DetachRequested(reason))
        self._undo_all()

    def scale_to(self, executors: int) -> None:
        """Ask for a number of executors now, without patience and cooldown."""
        self._feed(ScaleRequested(executors))

    def move(self, goal: Mapping[TaskId, str]) -> None:
        """Ask for a placement; the tasks move in mini-migrations."""
        self._feed(MoveRequested(dict(goal)))

    def abandon(self, why: str) -> None:
        """Give up what is under way: what moved stays moved, the rest stays put."""
        self._feed(AbandonRequested(why))

    @property
    def state(self) -> LoopState:
        """What the loop remembers now; it never changes in the reader's hands."""
        if self._state is None:
            raise ElastreamError("the controller has not been started")
        return self._state

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    def _heard(self, batch: BatchObservation) -> None:
        try:
            executors = self._pool.executors()
        except Exception as error:
            _logger.warning("batch %d is passed over: %s", batch.batch, _line(error))
            return
        with self._guarded():
            self._feed(BatchObserved(batch, executors))

    def _feed(self, event: Event) -> None:
        with self._lock:
            self._follow(step(self.state, event))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Leave the query alone for good, rather than disturb it, where the loop itself fails."""
        try:
            yield
        except Exception:
            _logger.exception("the loop failed and detaches; the query runs on")
            self._undo_all()

    def _follow(self, transition: Transition) -> None:
        self._state, instructions = transition
        for instruction in instructions:
            self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Log(decision=decision):
                self._write(decision)
            case Place(wanted=wanted):
                try:
                    self._placement.place(wanted)
                except Exception as error:
                    self._feed(PlaceFailed(_line(error)))
            case action if self._background is not None:
                self._background(lambda: self._act(action))

    def _act(self, action: Action) -> None:
        answer = self._answer(action)
        with self._guarded():
            self._feed(answer)

    def _answer(self, action: Action) -> Answer:
        try:
            match action:
                case Grow(ticket=ticket, total=total):
                    timeout_s = self._policy.grow_timeout_s
                    return GrowFinished(ticket, self._pool.grow(total, timeout_s=timeout_s))
                case Warm(ticket=ticket, ids=ids):
                    self._pool.warm(ids)
                    return WarmFinished(ticket)
                case Plan(ticket=ticket, order=order):
                    return PlanMade(ticket, route(order))
                case Release(ticket=ticket, ids=ids):
                    self._pool.release(ids)
                    return ReleaseFinished(ticket)
        except Exception as error:
            return ActionFailed(action.ticket, _line(error))

    def _write(self, decision: Decision) -> None:
        try:
            self._log(decision)
        except Exception as error:
            if not self._log_failed:
                _logger.error("decisions are no longer logged: %s", _line(error))
            self._log_failed = True

    def _undo_all(self) -> None:
        with self._lock:
            undo, self._undo = self._undo[::-1], []
        for one in undo:
            one()


class _Attached:
    """The queries of this process that have a controller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: set[str] = set()

    def claim(self, query: str) -> None:
        with self._lock:
            if query in self._queries:
                raise AlreadyAttachedError(
                    f"query {query} has a controller already; detach that one first"
                )
            self._queries.add(query)

    def free(self, query: str) -> None:
        with self._lock:
            self._queries.discard(query)


_ATTACHED = _Attached()


def _line(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no reason given"
    return text if isinstance(error, ElastreamError) else f"{type(error).__name__}: {text}"
