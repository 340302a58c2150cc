"""The thin driver: it owns the ports, turns instructions into calls and answers into events.

Nothing is decided here. Steps are taken one after the other under one lock, in the order of their
events. Every call on a port runs on a lane (:mod:`elastream.core.lanes`) with a deadline, so that
neither the loop nor whoever feeds it an event waits for a runtime that hangs.

A failure of the runtime becomes an event; a failure of the log is reported once to Python's
logging; should the loop itself fail, it detaches. None of them reaches the queries.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self, TypeVar

from elastream.core.clock import steady_s
from elastream.core.decision_log import LogEntry, LogWriter
from elastream.core.decisions import Decision
from elastream.core.events import (
    AbandonRequested,
    Action,
    Answered,
    Ask,
    Cancel,
    Copy,
    DetachRequested,
    DropCopies,
    Event,
    Grow,
    Instruction,
    Learn,
    Log,
    MoveRequested,
    PauseRequested,
    Place,
    Plan,
    RecordSample,
    Rehearse,
    Release,
    Repartition,
    Request,
    ResumeRequested,
    ScaleRequested,
    Stuck,
    Tick,
    UpdateRequested,
    Warm,
)
from elastream.core.goal import Failure, Probe, Think
from elastream.core.lanes import Job, Lane, ThreadLane
from elastream.core.learning import Learning
from elastream.core.policy import Policy
from elastream.core.ports import Runtime, Stopped, Ticket
from elastream.core.repartitioning import LONGEST_PAUSE_S
from elastream.core.routes import rehearse, route
from elastream.core.scenes import RecordScene, take_scene, with_scene_if_due
from elastream.core.state import Detached, LoopState, note
from elastream.core.step import start_loop, step
from elastream.model.errors import AlreadyAttachedError, ElastreamError, QueryStoppedError
from elastream.model.observation import TaskId
from elastream.model.words import printable

_logger = logging.getLogger(__name__)
_Port = TypeVar("_Port")

_TICK_S: Final = 1.0
_MARGIN_S: Final = 5.0
"""A lane waits so much longer than the loop, which gives up first."""
_LEARN_S: Final = 3600.0
_REHEARSE_S: Final = 120.0
_DRAIN_S: Final = 2.0
"""How long a lane may take, when the loop ends or rests, for what it has begun."""

Lanes = Callable[[str, Callable[[str, float, bool], None]], Lane]
"""Makes a lane from its name and what to call where it is stuck."""

_CALLS: Final = {
    Place: ("place", "placing tasks"),
    Copy: ("copy", "a copy of state"),
    Grow: ("act", "a request for executors"),
    Warm: ("act", "a warm-up"),
    Release: ("act", "a release"),
    Plan: ("plan", "a plan"),
    Ask: ("think", "a question of the goal"),
    Learn: ("learn", "a lesson"),
    Repartition: ("pause", "a repartitioning"),
}
"""The lane of each action, and its name in messages."""


class Controller:
    """One application's loop: attached by :meth:`start`, left by :meth:`detach`.

    ``log`` is called with every decision, sample and scene. ``learning`` and ``past`` are from
    before: sizes of the application, and its load by time. ``lanes`` makes the lanes of calls.
    Spans are measured by ``clock``, in seconds since the epoch; people are shown ``wall``.
    ``ticks``: whether time passes by itself. ``on_failure`` is called when the loop has failed and
    left, in whatever thread that was.
    """

    def __init__(
        self,
        runtime: Runtime,
        policy: Policy,
        log: LogWriter,
        *,
        learning: Learning | None = None,
        past: Iterable[tuple[int, float]] = (),
        lanes: Lanes = ThreadLane,
        clock: Callable[[], float] = steady_s,
        wall: Callable[[], float] = time.time,
        ticks: bool = True,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._logs: tuple[LogWriter, ...] = (log,)
        self._learning = learning
        self._past = past
        self._make_lane = lanes
        self._clock = clock
        self._wall = wall
        self._ticks = ticks
        self._on_failure = on_failure
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._events: deque[Event] = deque()
        self._stepping = False
        self._state: LoopState | None = None
        self._lanes: dict[str, Lane] = {}
        self._tickets: dict[int, Ticket] = {}
        self._log_failed = False
        self._said: list[Decision] | None = None
        """What is logged about the request that is being taken in."""
        self._undo: list[Callable[[], None]] = []
        self.ended = threading.Event()
        """Set when the loop has ended, for whatever reason."""

    @property
    def policy(self) -> Policy:
        """What the loop follows now."""
        return self._policy if self._state is None else self._state.policy

    @property
    def state(self) -> LoopState:
        """What the loop remembers now; it never changes in the reader's hands."""
        if self._state is None:
            raise ElastreamError("the controller has not been started")
        return self._state

    def start(self) -> Self:
        """Attach and begin to listen; raises where the goal makes no sense on this runtime."""
        with self._lock:
            if self._state is not None:
                raise AlreadyAttachedError("this controller was started before")
            executors = self._runtime.pool.executors()
            now_ms, wall_ms = self._now_ms(), self._wall_ms()
            self._policy.goal.check_start(wall_ms, executors)
            first = start_loop(
                self._policy,
                executors,
                now_ms=now_ms,
                wall_ms=wall_ms,
                learning=self._learning,
                past=self._past,
                can_copy=self._runtime.copies is not None,
            )
            self._follow(first)
        try:
            self._undo.append(self._runtime.monitor.subscribe(self.feed))
            if self._ticks:
                threading.Thread(target=self._tick, name="elastream clock", daemon=True).start()
        except BaseException:
            self._leave()
            raise
        if self.ended.is_set():  # its first event has failed
            self._leave()
        return self

    def detach(self, reason: str | None = None) -> None:
        """Leave the queries running as they are; what is under way is given up, for good."""
        if self._state is not None and not self.state.phase.detached:
            self.feed(DetachRequested() if reason is None else DetachRequested(reason))
        self._leave()

    def scale_to(self, executors: int, *, tau: float | None = None) -> None:
        """Ask for a number of executors now, without patience and cooldown."""
        self.feed(ScaleRequested(executors, tau))

    def move(self, goal: Mapping[TaskId, str]) -> None:
        """Ask for a placement; the tasks move in mini-migrations."""
        self.feed(MoveRequested(dict(goal)))

    def pause(self) -> None:
        """Decide nothing until resumed; what is under way is given up."""
        self.feed(PauseRequested())

    def resume(self) -> None:
        """Decide again."""
        self.feed(ResumeRequested())

    def update(self, policy: Policy) -> None:
        """Follow another policy; raises where its goal makes no sense on this runtime now."""
        self.request(UpdateRequested(policy))

    def request(self, event: Request) -> tuple[Decision, ...]:
        """Take in what somebody asks for; return what was logged about it, in order.

        Raises ``ProblemError`` for a policy whose goal makes no sense on this runtime now.
        """
        with self._lock:
            if isinstance(event, UpdateRequested) and self._state is not None:
                event.policy.goal.check_start(self._wall_ms(), self.state.all_executors)
            said: list[Decision] = []
            self._said = said
            try:
                failed = self._take(event)
            finally:
                self._said = None
        if failed:
            self._leave_failed()
        return tuple(said)

    def abandon(self, why: str) -> None:
        """Give up what is under way: what moved stays moved, the rest stays put."""
        self.feed(AbandonRequested(why))

    def wait(self, timeout_s: float) -> bool:
        """Return when nothing is under way and its log is written; ``False`` at the timeout.

        A log that hangs is waited for no longer than when the loop ends.
        """
        deadline = time.monotonic() + timeout_s
        written = threading.Event()
        with self._changed:
            if not self._changed.wait_for(self._is_settled, timeout_s):
                return False
            last = Job("the log", _DRAIN_S, written.set, lambda _: written.set())
            self._lane("log").submit(last)
        written.wait(min(_DRAIN_S, deadline - time.monotonic()))
        return True

    def add_log(self, log: LogWriter) -> Callable[[], None]:
        """Write decisions there too; return how to stop that."""
        with self._lock:
            self._logs = (*self._logs, log)

        def remove() -> None:
            with self._lock:
                self._logs = tuple(other for other in self._logs if other is not log)

        return remove

    def feed(self, event: Event) -> None:
        """Take an event in and do what follows; those that come of it follow in order."""
        if self._take(event):
            self._leave_failed()

    def _take(self, event: Event) -> bool:
        """Take an event in; return whether the loop has failed, and is to be left."""
        failed = False
        with self._lock:
            self._events.append(event)
            if self._stepping or self._state is None:
                return False
            self._stepping = True
            try:
                while self._events:
                    before = self.state
                    self._follow(with_scene_if_due(before, step(before, self._events.popleft())))
            except Exception as error:
                failed = True
                self._fail(error)
            finally:
                self._stepping = False
                self._changed.notify_all()
        return failed

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.detach()

    def _fail(self, error: Exception) -> None:
        """Detach for a fault of the loop itself, as for a request where the state allows it."""
        _logger.error("the loop failed and detaches; the queries run on", exc_info=error)
        self._events.clear()
        reason = f"the loop failed and detaches; the queries run on: {_line(error)}"
        before = self.state
        try:
            self._follow(
                with_scene_if_due(before, step(before, DetachRequested(reason, failed=True)))
            )
        except Exception:  # what it knows is at fault
            _logger.debug("the failed loop could not detach in a step", exc_info=True)
            self._state = replace(before, phase=Detached())
            with suppress(Exception):  # such as where no thread can be started for the log
                self._write(note(self._state, "detach", reason, figures={"failed": 1}))
                self._write(RecordScene(self._state))

    def _leave_failed(self) -> None:
        try:
            self._leave()
        finally:
            self._on_failure()

    def _is_settled(self) -> bool:
        state = self.state
        resting = state.phase.resting and state.request is None and state.outcome is None
        return resting or state.phase.detached or self.ended.is_set()

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _wall_ms(self) -> int:
        return round(self._wall() * 1000)

    def _tick(self) -> None:
        while not self.ended.wait(_TICK_S):
            with self._lock:
                lanes = tuple(self._lanes.values())
            try:
                for lane in lanes:
                    lane.look()
            except Exception as error:  # such as where no thread can be started
                with self._lock:
                    self._fail(error)
                self._leave_failed()
                return
            self.feed(Tick(self._now_ms(), self._wall_ms()))

    def _follow(self, after: tuple[LoopState, tuple[Instruction | RecordScene, ...]]) -> None:
        self._state, instructions = after
        for instruction in instructions:
            self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction | RecordScene) -> None:
        if self._said is not None and isinstance(instruction, Log):
            self._said.append(instruction.decision)
        match instruction:
            case Log() | RecordSample() | RecordScene():
                self._write(instruction)
            case Rehearse(tasks=tasks, nodes=nodes):
                self._rehearse(tasks, nodes)
            case DropCopies():
                self._drop_copies()
            case Cancel(ticket=number):
                ticket = self._tickets.pop(number, None)
                if ticket is not None:
                    ticket.cancel()
            case action:
                self._begin(action)

    def _rehearse(self, tasks: int, nodes: int) -> None:
        def run() -> None:
            try:
                rehearse(tasks, nodes)
            except Exception:  # it only spares the first plan some time
                _logger.warning("the rehearsal of a plan failed", exc_info=True)

        self._lane("plan").submit(Job("a rehearsal", _REHEARSE_S, run, _ignore))

    def _drop_copies(self) -> None:
        copies = self._runtime.copies
        if copies is not None:
            job = Job("dropping copies", self.policy.timeouts.call_s, copies.drop, _ignore)
            self._lane("copy").submit(job)

    def _begin(self, action: Action) -> None:
        ticket = self._tickets[action.ticket] = Ticket()

        def refused(why: str) -> None:
            self._answer(action, Failure(why))

        def run() -> None:
            result = self._result(action, ticket) if ticket.valid else Failure("given up")
            self._answer(action, result)

        lane, what = _CALLS[type(action)]
        self._lane(lane).submit(Job(what, self._limit_s(action), run, refused))

    def _answer(self, action: Action, result: Any) -> None:
        with self._lock:
            wanted = self._tickets.pop(action.ticket, None)
        if wanted is not None and wanted.valid:
            self.feed(Answered(action.ticket, result))

    def _result(self, action: Action, ticket: Ticket) -> Any:
        try:
            return self._call(action, ticket)
        except QueryStoppedError as error:
            return Stopped(_line(error))
        except Exception as error:
            return Failure(_line(error))

    def _call(self, action: Action, ticket: Ticket) -> Any:
        runtime, grow_s = self._runtime, self.policy.timeouts.grow_s
        match action:
            case Grow(total=total):
                return runtime.pool.grow(total, timeout_s=grow_s, ticket=ticket)
            case Warm(ids=ids):
                return runtime.pool.warm(ids, ticket=ticket)
            case Release(ids=ids):
                return runtime.pool.release(ids, ticket=ticket)
            case Plan(order=order):
                return route(order)
            case Copy(wanted=wanted, soon=soon):
                copies = _present(runtime.copies, "copy state")
                source = self._policy.movement.copy_source
                return copies.copy(wanted, soon=soon, source=source, ticket=ticket)
            case Place(query=query, wanted=wanted, lost=lost):
                return runtime.placement.place(query, wanted, lost=lost, ticket=ticket)
            case Ask(question=Think(work=work)):
                return work()
            case Ask(question=Probe(pairs=pairs)):
                return _present(runtime.probe, "probe hosts").round_trips_ms(pairs)
            case Learn(lesson=lesson):
                return _present(runtime.learner, "work values out").learn(lesson, ticket=ticket)
            case Repartition(query=query, partitions=partitions, places=places):
                starter = _present(runtime.repartitioner, "start a query again")
                return starter.repartition(query, partitions, places, ticket=ticket)

    def _limit_s(self, action: Action) -> float:
        if isinstance(action, Place):
            return self.policy.timeouts.call_s
        if isinstance(action, Copy):
            return self.policy.timeouts.copy_s + _MARGIN_S
        if isinstance(action, Learn):
            return _LEARN_S
        if isinstance(action, Repartition):
            return LONGEST_PAUSE_S + _MARGIN_S
        return self.state.action_s + _MARGIN_S

    def _lane(self, name: str) -> Lane:
        if name not in self._lanes:
            self._lanes[name] = self._make_lane(f"elastream {name}", self._stuck)
        return self._lanes[name]

    def _stuck(self, what: str, after_s: float, back: bool) -> None:
        self.feed(Stuck(self._now_ms(), what, after_s, back))

    def _write(self, instruction: Log | RecordSample | RecordScene) -> None:
        logs = self._logs

        def write() -> None:
            entry = _to_log_entry(instruction)
            for log in logs:
                try:
                    log(entry)
                except Exception as error:
                    if not self._log_failed:
                        _logger.error("decisions are no longer logged: %s", _line(error))
                    self._log_failed = True

        job = Job("writing the log", self.policy.timeouts.call_s, write, _ignore)
        self._lane("log").submit(job)

    def _leave(self) -> None:
        """Receive and do nothing more; do not wait long for calls that hang."""
        with self._lock:
            undo, self._undo = self._undo[::-1], []
            tickets, self._tickets = tuple(self._tickets.values()), {}
            lanes = tuple(self._lanes.values())
        self.ended.set()
        for ticket in tickets:
            ticket.cancel()
        for one in undo:
            one()
        for lane in lanes:
            lane.close()
        for lane in lanes:
            lane.drain(_DRAIN_S)
        with self._changed:
            self._changed.notify_all()


def _to_log_entry(instruction: Log | RecordSample | RecordScene) -> LogEntry:
    match instruction:
        case Log(decision=decision):
            return decision
        case RecordSample():
            return instruction.sample
        case RecordScene(state=state, batches=batches):
            return take_scene(state, batches)


def _present(port: _Port | None, does: str) -> _Port:
    """Return a port that a runtime need not have."""
    if port is None:
        raise ElastreamError(f"there is no way to {does}")
    return port


def _ignore(_: str) -> None:
    """Take no notice that a lane took no job."""


def _line(error: Exception) -> str:
    text = printable(" ".join(str(error).split())) or "no reason given"
    return text if isinstance(error, ElastreamError) else f"{type(error).__name__}: {text}"
