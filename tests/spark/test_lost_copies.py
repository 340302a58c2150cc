"""Orders for copies that get lost, and keepers that end; with live executors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.running_query import BY_HAND, RunningQuery, running, until
from tests.spark.streams import aggregation
from tests.spark.test_copies import AHEAD
from tests.spark.test_standbys import all_have_one, standby_decisions
from tests.spark.thread_dumps import threads

from elastream.core.ports import Copied, Ticket
from elastream.model.observation import TaskId
from elastream.spark.internals.keepers import KeeperCommand, Keepers
from elastream.spark.steer.copies import SparkStateCopies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.spark.internals.spark_internals import ExecutorEntry

MINUTE_S = 60.0


class Losses:
    """Loses deliveries that were acknowledged; then a minute passes while copies are awaited."""

    def __init__(self, copies: SparkStateCopies, lost: int) -> None:
        self.left = lost
        self.delivered = 0
        self.late_s = 0.0
        self._waiting = False
        self._deliver = copies._keepers.deliver
        copies._keepers.deliver = self.deliver  # type: ignore[method-assign]
        copies._clock = lambda: time.monotonic() + self.late_s

    def deliver(self, executor: ExecutorEntry, orders: Sequence[Sequence[Any]]) -> str:
        self.delivered += 1
        if self.left == 0:
            return self._deliver(executor, orders)
        self.left -= 1
        self._waiting = True
        return ""

    def passed(self) -> None:
        """Let time pass once for each delivery that was lost."""
        if self._waiting:
            self.late_s += MINUTE_S
        self._waiting = False


class Patient(Ticket):
    """A ticket of somebody who does something while waiting."""

    def __init__(self, waited: Callable[[], None]) -> None:
        super().__init__()
        self._waited = waited

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        self._waited()


def copies_of(run: RunningQuery) -> SparkStateCopies:
    copies = run.attachment._application.copies
    assert isinstance(copies, SparkStateCopies)
    return copies


def copied(run: RunningQuery, tasks: Sequence[TaskId], losses: Losses) -> Copied:
    """Have copies of tasks on the executor where none of them is."""
    _, second = run.executor_ids()
    wanted = dict.fromkeys(tasks, second)
    return copies_of(run).copy(wanted, soon=True, ticket=Patient(losses.passed))


@pytest.mark.parametrize("lost", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_an_order_that_no_keeper_has_is_delivered_again(spark: SparkSession, lost: int) -> None:
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        run.settle(dict.fromkeys(run.tasks, run.executor_ids()[0]))
        losses = Losses(copies_of(run), lost)
        found = copied(run, run.tasks, losses)
        assert found.tasks == frozenset(run.tasks), found.why
        assert losses.delivered == lost + 1


@pytest.mark.slow  # three losses are in every run
def test_an_order_that_is_lost_each_time_does_not_come_and_it_is_said_why(
    spark: SparkSession,
) -> None:
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        first, second = run.executor_ids()
        run.settle(dict.fromkeys(run.tasks, first))
        losses = Losses(copies_of(run), 100)
        found = copied(run, run.tasks, losses)
        assert found.tasks == frozenset()
        assert found.why == f"executor {second} took its order 4 times and does not report on it"
        assert losses.delivered == 4


@pytest.mark.slow  # three losses are in every run
def test_an_order_that_a_living_keeper_does_not_have_is_delivered_again_at_once(
    spark: SparkSession,
) -> None:
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        run.settle(dict.fromkeys(run.tasks, run.executor_ids()[0]))
        assert copied(run, run.tasks[:1], Losses(copies_of(run), 0)).why is None
        losses = Losses(copies_of(run), 1)
        found = copies_of(run).copy(
            dict.fromkeys(run.tasks, run.executor_ids()[1]), soon=True, ticket=Ticket()
        )
        assert found.tasks == frozenset(run.tasks), found.why
        assert (losses.delivered, losses.late_s) == (2, 0.0)


class Silence:
    """A driver that writes nothing to keepers for a while, as one that is suspended."""

    def __init__(self, copies: SparkStateCopies) -> None:
        self.is_silent = False
        self._write = copies._keepers.write
        copies._keepers.write = self.write  # type: ignore[method-assign]

    def write(self, executor: str, command: KeeperCommand) -> None:
        if not self.is_silent:
            self._write(executor, command)


def have_keepers(run: RunningQuery) -> bool:
    names = [
        str(thread.threadName())
        for executor in run.executor_ids()
        for thread in threads(run.spark, executor)
    ]
    return any(name.startswith("elastream copies") for name in names)


def test_copies_whose_keeper_has_ended_meanwhile_are_ordered_anew(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keepers, "lease_s", 5.0)
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        run.settle(dict.fromkeys(run.tasks, run.executor_ids()[0]))
        silence, losses = Silence(copies_of(run)), Losses(copies_of(run), 0)
        assert copied(run, run.tasks, losses).why is None
        silence.is_silent = True
        until(lambda: not have_keepers(run), "the keeper has ended")
        silence.is_silent = False
        found = copied(run, run.tasks, losses)
        assert found.tasks == frozenset(run.tasks), found.why
        assert have_keepers(run)


@pytest.mark.slow  # that of copies is in every run
def test_standbys_whose_keepers_have_ended_are_ordered_anew(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keepers, "lease_s", 5.0)
    policy = replace(BY_HAND, standbys=1)
    with running(aggregation(spark), mode="update", policy=policy) as run:
        run.settle_intervals(run.executor_ids())
        until(lambda: all_have_one(run), "all have one")
        assert have_keepers(run)
        before = len(standby_decisions(run, "has dropped the copies"))
        silence = Silence(copies_of(run))
        silence.is_silent = True
        until(lambda: not have_keepers(run), "the keepers have ended")
        silence.is_silent = False
        until(
            lambda: len(standby_decisions(run, "has dropped the copies")) > before,
            "the loop knows of the loss",
        )
        until(lambda: all_have_one(run) and have_keepers(run), "all have one again")
