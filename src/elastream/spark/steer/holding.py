"""New executors are held until they are warm, so that no Real-time query waits for their start.

Spark deals the sources of a Real-time batch over all executors with free slots. A cold one answers
its first rows after seconds. So from its registration all slots of a new executor but a few are
taken by tasks that sleep. The few are for its warm-up; they are taken too while a batch begins.
Once it is warm, the executor is let go just before the end of a batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final

from elastream.core.events import (
    BoundaryNear,
    ExecutorsChanged,
    Fact,
    LoadObserved,
    QueryLeft,
    Status,
)
from elastream.spark.internals.realtime import SlotHold
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.steer.slots import SlotLaw

_log = logging.getLogger(__name__)

OWN_SLOTS: Final = 3
"""Slots of a held executor that are left for its warm-up."""
_RELEASE_S: Final = 2.0


class Holds:
    """The executors that are held; only while the loop ``acts`` and warms them."""

    def __init__(self, internals: SparkInternals, law: SlotLaw, acts: Callable[[], bool]) -> None:
        self._internals = internals
        self._law = law
        self._acts = acts
        self._lock = threading.Lock()
        self._held: dict[str, tuple[ExecutorEntry, SlotHold]] = {}
        self._boundaries: dict[str, SlotHold] = {}
        """Of those executors the remaining slots, while a batch ends."""
        self._ending: set[str] = set()
        """The queries whose batch is about to end."""
        self._warm: set[str] = set()
        """Those that are let go at the end of the next batch."""
        self._closed = False

    def begin(self, executor: ExecutorEntry) -> None:
        """Hold a new executor, where a Real-time query runs that can do without it."""
        slots = executor.slots - OWN_SLOTS
        if slots <= 0 or not self._acts() or not self._law.watches_realtime():
            return  # only queries that take part say when their batches end
        why = self._law.shortage(more=executor.slots)
        if why is not None:
            _log.warning("executor %s is not held while it is warmed: %s", executor.id, why)
            return
        with self._lock:
            if executor.id not in self._held and not self._closed:
                hold = SlotHold(self._internals, executor, slots)
                self._held[executor.id] = (executor, hold)
                # a batch may begin just now: the rest is free once one is seen in its middle
                rest = SlotHold(self._internals, executor, OWN_SLOTS)
                self._boundaries[executor.id] = rest

    def let_go_at_boundary(self, ids: Iterable[str]) -> None:
        """Let executors go just before the end of the batch under way: they are warm."""
        with self._lock:
            self._warm.update(name for name in ids if name in self._held)

    def release(self, ids: Iterable[str]) -> None:
        """Let executors go, and return when their slots are free."""
        with self._lock:
            holds = self._taken(ids)
        for hold in holds:
            hold.release()
        for hold in holds:
            hold.wait(_RELEASE_S)

    def close(self) -> None:
        """Let all go, and hold none from now on."""
        with self._lock:
            self._closed = True
        self.release({*self._held, *self._boundaries})

    def take_in(self, fact: Fact) -> None:
        """Let warm executors go when a batch ends, and hold the others whole until it has."""
        if not self._held and not self._boundaries:
            return
        with self._lock:
            free = self._freed(fact)
        for hold in free:
            hold.release()

    def _freed(self, fact: Fact) -> list[SlotHold]:
        """Return the holds that end with a fact, after beginning those that begin with it."""
        match fact:
            case BoundaryNear(query=query):
                self._ending.add(query)
                free = self._taken(self._warm)
                for name, (executor, _) in self._held.items():
                    if name not in self._boundaries and self._law.shortage(more=OWN_SLOTS) is None:
                        hold = SlotHold(self._internals, executor, OWN_SLOTS)
                        self._boundaries[name] = hold
                return free
            case LoadObserved(load=load) if load.ends_at_ms - load.at_ms > 1000 * _RELEASE_S:
                return self._begun(load.query)
            case QueryLeft(query=query):  # started again, it needs the slots, cold or not
                self._ending.discard(query)
                return self._taken({*self._held, *self._boundaries})
            case Status() if not self._acts():
                return self._taken({*self._held, *self._boundaries})
            case ExecutorsChanged(executors=executors):
                alive = {each.id for each in executors}
                return self._taken([name for name in self._held if name not in alive])
            case _:
                return []

    def _begun(self, query: str) -> list[SlotHold]:
        """Return what is held for ends of batches alone, where the last of them has passed."""
        self._ending.discard(query)
        if self._ending:
            return []
        free, self._boundaries = list(self._boundaries.values()), {}
        return free

    def _taken(self, ids: Iterable[str]) -> list[SlotHold]:
        """Forget these executors, and return what holds them."""
        found = []
        for name in tuple(ids):
            self._warm.discard(name)
            if name in self._held:
                found.append(self._held.pop(name)[1])
            if name in self._boundaries:
                found.append(self._boundaries.pop(name))
        return found
