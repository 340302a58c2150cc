"""The thin driver of the replication loop: it turns instructions into calls, answers into events.

Nothing is decided here. Batches are heard after the loop that carries out has heard them, so that
its state (load, executors, whether it moves) is that of the batch. Solving, probing and warming go
to one background thread. A failure becomes an event; should the loop itself fail, it leaves the
query alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from elastream.control.analyse import utilisation
from elastream.control.decisions import Decision
from elastream.control.driver import Background, Controller, Worker
from elastream.control.events import Log
from elastream.control.observation import BatchObservation, TaskId
from elastream.control.ports import DelayProbe, Monitor
from elastream.control.replication.events import (
    Answer,
    CarryOut,
    CarryOutFinished,
    DelaysMeasured,
    Event,
    Failed,
    Looked,
    PlanMade,
    Probe,
    Solve,
)
from elastream.control.replication.graph import OperatorGraph
from elastream.control.replication.policy import ReplicationPolicy
from elastream.control.replication.solving import solved
from elastream.control.replication.step import ReplicationState, Transition, started, step
from elastream.control.replication.vivaldi import round_trips_ms
from elastream.control.state import Detached, Steady
from elastream.model.errors import ElastreamError

__all__ = ["CarryingOut", "ReplicationController"]

_logger = logging.getLogger(__name__)

CarryingOut = Callable[[Mapping[TaskId, str], Sequence[str]], None]
"""Moves tasks to executors, after the executors named second have been warmed."""


class ReplicationController:
    """One query's replication loop, on top of the ``controller`` that carries its plans out.

    ``probe`` measures delays between hosts; ``None``: they count as 0. ``carry_out`` is called in
    the background. ``background`` runs what takes its time; left out, a thread of its own.
    """

    def __init__(
        self,
        monitor: Monitor,
        controller: Controller,
        graph: OperatorGraph,
        policy: ReplicationPolicy,
        log: Callable[[Decision], None],
        *,
        carry_out: CarryingOut,
        probe: DelayProbe | None = None,
        background: Background | None = None,
    ) -> None:
        self._controller = controller
        self._log = log
        self._carry_out = carry_out
        self._probe = probe
        self._lock = threading.RLock()
        self._end: Callable[[], None] = lambda: None
        if background is None:
            background = worker = Worker("elastream replication")
            self._end = worker.close
        self._background = background
        first = started(policy, graph, controller.state.executors)
        self._state = first[0]
        self._follow(first)
        self._unsubscribe = monitor.subscribe(self._heard)

    @property
    def state(self) -> ReplicationState:
        """What the loop remembers now; it never changes in the reader's hands."""
        return self._state

    def close(self) -> None:
        """Decide no more. Harmless if repeated."""
        self._unsubscribe()
        self._end()

    def _heard(self, batch: BatchObservation) -> None:
        below = self._controller.state
        if below.load.batch != batch.batch or isinstance(below.phase, Detached):
            return
        busy = utilisation(below.load, below.executors, below.policy)
        moving = not isinstance(below.phase, Steady)
        self._feed(Looked(batch, below.load, below.executors, moving, busy))

    def _feed(self, event: Event) -> None:
        try:
            with self._lock:
                self._follow(step(self._state, event))
        except Exception:
            _logger.exception("the replication loop failed and ends; the query runs on")
            self.close()

    def _follow(self, transition: Transition) -> None:
        self._state, instructions = transition
        for instruction in instructions:
            if isinstance(instruction, Log):
                self._log(instruction.decision)
            else:
                self._begin(instruction)

    def _begin(self, action: Probe | Solve | CarryOut) -> None:
        self._background(lambda: self._feed(self._answer(action)))

    def _answer(self, action: Probe | Solve | CarryOut) -> Answer:
        try:
            match action:
                case Solve(ticket=ticket, order=order):
                    return PlanMade(ticket, solved(order))
                case Probe():
                    return self._probed(action)
                case CarryOut(ticket=ticket, goal=goal, cold=cold):
                    self._carry_out(goal, cold)
                    return CarryOutFinished(ticket)
        except Exception as error:
            told = str(error) if isinstance(error, ElastreamError) else repr(error)
            return Failed(action.ticket, " ".join(told.split()))

    def _probed(self, action: Probe) -> DelaysMeasured:
        if self._probe is None:
            raise ElastreamError("there is no way to probe hosts")
        probes = {**action.known, **self._probe.round_trips_ms(action.pairs)}
        table = round_trips_ms(action.hosts, probes, seed=action.ticket)
        return DelaysMeasured(action.ticket, probes, table)
