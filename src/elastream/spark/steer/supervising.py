"""Starting Real-time queries again that failed for a lost executor or for too few slots.

Spark does not try a Real-time batch again: where one of its tasks is lost, or not all get a slot,
the query ends. Nothing is wrong with it then. Where it is known how it is started
(``attach(restart=…)``), that is done as soon as there are slots for all its tasks, with its tasks
where they were. Any other failure is the user's to see. A query that fails again and again is left
stopped.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from elastream.core.clock import steady_s
from elastream.core.events import QueryRestarted
from elastream.model.errors import SparkError
from elastream.model.words import pluralize, printable
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.endings import ending
from elastream.spark.observe.watched_query import WatchedQuery
from elastream.spark.steer.restarting import QueryRestarter, Restart
from elastream.spark.steer.slots import SlotLaw

_log = logging.getLogger(__name__)

_MOST: Final = 5
"""How often a query is started again within :data:`_WITHIN_S`."""
_WITHIN_S: Final = 600.0
_LOST: Final = re.compile(
    r"ExecutorLostFailure|ExecutorDeadException|Executor heartbeat timed out"
    r"|worker lost|Command exited with code 1\d\d|CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
)
"""What Spark says where an executor is gone, or slots are too few."""


def is_supervised(fault: str) -> bool:
    """Whether a query failed for what a restart heals."""
    return _LOST.search(fault) is not None


def wait_s(before: int) -> float:
    """Return how long to wait before a start, after a number of others lately."""
    return 2.0 ** (before - 1) if before else 0.0


class Supervisor:
    """Starts the queries again that fail so; one for an attachment."""

    def __init__(
        self,
        internals: SparkInternals,
        restarter: QueryRestarter,
        law: SlotLaw,
        restart_of: Callable[[str], Restart | None],
        report: Callable[[QueryRestarted], None],
    ) -> None:
        self._internals = internals
        self._restarter = restarter
        self._law = law
        self._restart_of = restart_of
        self._report = report
        self._starts: dict[str, list[float]] = {}
        """When each query was started again lately."""
        self._needs: dict[str, int] = {}
        """The slots that a batch of each query took before it failed."""

    def on_failure(self, watched: WatchedQuery, fault: str) -> None:
        """Take note of a query that has failed; returns at once."""
        restart = self._restart_of(watched.name)
        if watched.realtime is None or restart is None or not is_supervised(fault):
            return
        needs = max(watched.realtime.slots, self._needs.get(watched.name, 0))
        if not needs:  # no batch of it has ever run
            return
        self._needs[watched.name] = needs
        now_s = time.monotonic()
        lately = [at_s for at_s in self._starts.get(watched.name, ()) if now_s - at_s < _WITHIN_S]
        if len(lately) >= _MOST:
            why = f"stays stopped: it failed {_MOST} times within {_WITHIN_S / 60:g} minutes"
            self._say(watched, f"{why}, at last: {ending(fault)}", {"failed": 1})
            return
        self._starts[watched.name] = [*lately, now_s]
        name = f"elastream-restart-{watched.name}"
        marked = ExitStack()  # from now on, before the monitor goes on: the query will go on too
        marked.enter_context(self._restarter.stopping(watched.name))

        def start() -> None:
            with marked:
                self._restart(watched, restart, ending(fault), wait_s(len(lately)))

        threading.Thread(target=start, name=name, daemon=True).start()

    def _restart(self, watched: WatchedQuery, restart: Restart, why: str, after_s: float) -> None:
        began = time.monotonic()
        self._say(watched, f"is to be started again: {why}", {})
        try:
            tries = self._restarter.start_failed(
                watched, restart, lambda: self._expect_slots(watched), after_s=after_s
            )
        except Exception as error:
            left = f"stays stopped: {ending(error)}"
            self._say(watched, left, {"failed": 1})
            _log.error("query %s %s", printable(watched.name), printable(left))
            return
        took_s = time.monotonic() - began
        done = f"was started again after {took_s:.1f} s, in {pluralize(tries, 'try', 'tries')}"
        self._say(watched, done, {"seconds": round(took_s, 1), "tries": tries})

    def _expect_slots(self, watched: WatchedQuery) -> None:
        """Refuse a start for which the slots are too few."""
        why = self._law.shortage(starting=self._needs[watched.name])
        if why is not None:
            raise SparkError(f"query {watched.name} waits for slots: {why}")

    def _say(self, watched: WatchedQuery, why: str, figures: dict[str, float]) -> None:
        self._report(QueryRestarted(round(steady_s() * 1000), watched.name, why, figures))
