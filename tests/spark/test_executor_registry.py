from __future__ import annotations

from queue import Queue
from typing import TYPE_CHECKING

import pytest
from tests.interleaving import SecondThread, WatchedLock
from tests.spark.running_query import PATIENCE_S

from elastream.core.events import ExecutorsChanged, Fact
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.monitor import SparkMonitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


class Alike(str):
    """An executor's id; all of them have one hash, so that sets compare them."""

    compared: Callable[[], None] = staticmethod(lambda: None)

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        type(self).compared()
        return str(self) == str(other)


def test_no_executor_is_forgotten_that_two_threads_warm_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, lock = ExecutorRegistry(SparkInternals.of(spark)), WatchedLock()
    registry._lock = lock  # type: ignore[assignment]
    others: list[SecondThread] = []

    def warm_another() -> None:
        name = f"other {len(others)}"
        others.append(SecondThread(lock, lambda: registry.warmed([name])))
        others[-1]()

    registry.warmed([Alike("first")])
    monkeypatch.setattr(Alike, "compared", staticmethod(warm_another))
    assert registry.warmed([Alike("second")])
    monkeypatch.undo()
    for other in others:
        other.join()
    names = {"first", "second", *(f"other {number}" for number in range(len(others)))}
    assert others
    assert {str(name) for name in registry.warm} == names


def test_an_executor_that_was_warmed_is_reported_whoever_else_reads_the_roll(
    spark: SparkSession,
) -> None:
    internals = SparkInternals.of(spark)
    registry = ExecutorRegistry(internals)
    facts: Queue[Fact] = Queue()
    monitor = SparkMonitor(internals, registry, lambda _: False)
    monitor.subscribe(facts.put)
    with monitor:
        report: Fact = facts.get(timeout=PATIENCE_S)
        while not isinstance(report, ExecutorsChanged):
            report = facts.get(timeout=PATIENCE_S)
        first = report.executors[0].id
        with monitor._lock:  # the monitor does not look before the pool has read the registry
            monitor._synced_s = float("inf")  # nor because a while has passed
            monitor._changing_until_s = 0.0
            assert registry.warmed([first])
            assert first in registry.warm
            assert registry.executors()[0].warm
        report = facts.get(timeout=PATIENCE_S)
        while not isinstance(report, ExecutorsChanged):
            report = facts.get(timeout=PATIENCE_S)
        assert report.executors[0].warm
