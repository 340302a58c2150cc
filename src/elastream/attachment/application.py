"""One application with its loop: the ports that Spark plays, joined to what decides.

Nothing is decided here. An application (a SparkContext) has one loop, which owns its executors.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.loop.decision_log import LogEntry
from elastream.loop.decisions import Decision
from elastream.loop.driver import Controller
from elastream.loop.policy import Policy
from elastream.loop.ports import Runtime, StatePlacement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from elastream.spark.door.private_door import PrivateDoor
    from elastream.spark.door.queries import RunningQuery
    from elastream.spark.steer.executors import SparkExecutorPool

__all__ = ["APPLICATIONS", "LOCK", "Application", "Backlog", "Wanted", "WarmUpStream"]

_log = logging.getLogger(__name__)

_QUIET: Final = ("hold", "wait")
_RECENT: Final = 8

Backlog = Callable[[Mapping[str, Any]], int | None]
WarmUpStream = Callable[["SparkSession"], "DataFrame"]

LOCK = threading.RLock()
APPLICATIONS: dict[str, Application] = {}
"""The applications of this process that have a loop, by Spark's id."""


class Wanted:
    """What one attachment wants to take part: some queries, or all of them."""

    def __init__(self, labels: frozenset[str] | None) -> None:
        self._labels = labels

    def wants(self, query: RunningQuery) -> bool:
        """Tell whether a query shall take part: one that is started again has the same label."""
        return self._labels is None or query.label in self._labels


class Application:
    """One SparkContext with its loop."""

    def __init__(
        self,
        door: PrivateDoor,
        policy: Policy,
        *,
        backlog: Backlog | None,
        stream: WarmUpStream | None,
        placement: StatePlacement | None,
        trace: Path | str | None,
    ) -> None:
        from elastream.spark.observe.host_delays import HostProbe
        from elastream.spark.observe.monitor import SparkMonitor
        from elastream.spark.observe.roll import ExecutorRoll
        from elastream.spark.steer.copies import SparkStateCopies
        from elastream.spark.steer.executors import SparkExecutorPool
        from elastream.spark.steer.placement import SparkStatePlacement as Placement
        from elastream.traces.learner import ProcessLearner
        from elastream.traces.recorder import TraceRecorder

        self.door = door
        self.recent: deque[Decision] = deque(maxlen=_RECENT)
        """What was decided last, holds and waits left out."""
        self._wanted: tuple[Wanted, ...] = ()
        roll = ExecutorRoll(door)
        self.monitor = SparkMonitor(door, roll, self._wants, backlog=backlog)
        self.pool: SparkExecutorPool = SparkExecutorPool(door, roll, self.monitor, stream=stream)
        self.copies = SparkStateCopies(door, self.monitor) if placement is None else None
        folder = None if trace is None else Path(trace)
        recorder = None if folder is None else TraceRecorder(folder)
        runtime = Runtime(
            self.monitor,
            self.pool,
            placement or Placement(door, self.monitor, self.copies),
            HostProbe(door),
            ProcessLearner(folder),
            self.copies,
        )
        self.controller = Controller(
            runtime,
            policy,
            (lambda _: None) if recorder is None else recorder.write,
            learning=None if recorder is None else recorder.learning,
            past=() if recorder is None else recorder.past(),
        )
        self.controller.add_log(self._remember)

    def start(self) -> None:
        """Begin to watch and to decide."""
        try:
            if self.copies is not None:
                self.monitor.subscribe(self.copies.heard)
            self.controller.start()
            self.monitor.start()
        except BaseException:
            self.end()
            raise
        threading.Thread(target=self._end_with_the_driver, daemon=True).start()

    def hold(self, wanted: Wanted) -> None:
        """Let more queries take part."""
        self._wanted = (*self._wanted, wanted)

    def let_go(self, wanted: Wanted) -> None:
        """Let those queries go that nobody else wants; end with the last."""
        with LOCK:
            self._wanted = tuple(other for other in self._wanted if other is not wanted)
            last = not self._wanted
            if last:
                APPLICATIONS.pop(self.door.application_id(), None)
        if last:
            self.end()
        else:
            self.monitor.look_again()

    def end(self, reason: str | None = None) -> None:
        """End the loop; the queries run on, for which they need an executor."""
        self.controller.detach(reason)
        self.monitor.close()
        try:
            if self.copies is not None:
                self.copies.close()
            if not self.door.executors():
                self.door.request_executors(1)
        except Exception:  # the application has ended, or takes no requests
            _log.debug("no executor was asked for", exc_info=True)

    def _remember(self, entry: LogEntry) -> None:
        if isinstance(entry, Decision) and entry.kind not in _QUIET:
            self.recent.append(entry)

    def _wants(self, query: RunningQuery) -> bool:
        return any(wanted.wants(query) for wanted in self._wanted)

    def _end_with_the_driver(self) -> None:
        self.monitor.ended.wait()
        with LOCK:
            for key, application in tuple(APPLICATIONS.items()):
                if application is self:
                    del APPLICATIONS[key]
        self.end("the application has ended")
