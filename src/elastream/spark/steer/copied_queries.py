"""The queries whose state is copied: what their stores are opened with, and what has committed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from elastream.model.errors import QueryRefusedError, SparkError
from elastream.model.observation import TaskId
from elastream.spark.internals.copy_orders import OrderBook, copy_orders
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.watched_query import StoreOfTask, WatchedQuery

Stores = dict[str, tuple[TaskId, StoreOfTask]]
"""Stores of tasks, by key."""


def run_of(key: str) -> str:
    """Return the run of the query whose store has this key."""
    return key.partition("/")[0]


class CopiedQueries:
    """What is known of every run of a query that has copies, until it ends."""

    def __init__(self, internals: SparkInternals, monitor: SparkMonitor) -> None:
        self._internals = internals
        self._monitor = monitor
        self._lock = threading.Lock()
        self._committed: dict[str, int] = {}
        self._books: dict[str, OrderBook] = {}
        self._realtime: set[str] = set()

    @property
    def committed(self) -> Mapping[str, int]:
        """The last committed batch of each run."""
        with self._lock:
            return dict(self._committed)

    def stores(self, wanted: Mapping[TaskId, str]) -> tuple[dict[str, Stores], dict[TaskId, str]]:
        """Return the stores of tasks by executor, and why some tasks cannot be copied."""
        found: dict[str, Stores] = {}
        refused: dict[TaskId, str] = {}
        queries: dict[str, tuple[WatchedQuery, OrderBook]] = {}
        for task, executor in wanted.items():
            if task.query not in queries:
                queries[task.query] = self._query(task.query)
            watched, book = queries[task.query]
            stores = watched.stores(task)
            whys = [book.refused[each.operator] for each in stores if each.operator in book.refused]
            if whys:
                refused[task] = whys[0]
                continue
            run = watched.query.run_id
            found.setdefault(executor, {}).update(
                {
                    f"{run}/{each.operator}/{each.partition}/{each.name}": (task, each)
                    for each in stores
                }
            )
        return found, refused

    def order(self, key: str, store: StoreOfTask) -> list[Any] | None:
        """Return the order for a copy of a store; ``None`` where its query has left meanwhile."""
        with self._lock:
            book = self._books.get(run_of(key))
        return None if book is None else [key, store.id, *book.orders[store.operator, store.name]]

    def holds_stores(self, key: str) -> bool:
        """Whether the tasks of a store's query hold their stores for a whole batch."""
        with self._lock:
            return run_of(key) in self._realtime

    def take_in(self, run: str, batch: int) -> bool:
        """Take in that a batch has committed; return whether its query has copies."""
        with self._lock:
            if run in self._committed:
                self._committed[run] = batch
            return run in self._committed

    def forget(self, run: str) -> None:
        """Forget a query that has ended."""
        with self._lock:
            self._committed.pop(run, None)
            self._books.pop(run, None)
            self._realtime.discard(run)

    def rest(self) -> None:
        """No query has copies any more."""
        with self._lock:
            self._committed.clear()

    def _query(self, name: str) -> tuple[WatchedQuery, OrderBook]:
        """Return a query whose last batch is known, and its orders.

        It may leave meanwhile, in the monitor's thread: then nothing of it is kept.
        """
        watched = self._monitor.named(name)
        if watched is None:
            raise QueryRefusedError(f"query {name} does not take part")
        run = watched.query.run_id
        with self._lock:
            book = self._books.get(run)
        book = book or copy_orders(self._internals, watched.query)
        batch = self._internals.queries.committed_batch(watched.query)
        if batch is None:
            raise SparkError(f"query {name} has committed no batch")
        with self._lock:
            self._books[run] = book
            self._committed[run] = max(batch, self._committed.get(run, batch))
            if watched.realtime is not None:
                self._realtime.add(run)
        if self._monitor.named(name) is not watched:
            self.forget(run)
            raise QueryRefusedError(f"query {name} has ended")
        return watched, book
