"""State goes from executor to executor on live executors, exactly, and leaves nothing behind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.spark.processes import kill
from tests.spark.running_query import RunningQuery, running, until
from tests.spark.streams import LATER, aggregation, aggregation_answer, aggregation_state, join
from tests.spark.test_copies import AHEAD, ends, session_with, swap, swap_ahead, swap_all, table_of

from elastream.core.ports import Copied, CopySource, Ticket
from elastream.model.errors import SparkError
from elastream.spark.internals.variants import installed_variant
from elastream.spark.steer.copies import SparkStateCopies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    installed_variant().send_methods is None, reason="this Spark loads from storage alone"
)


SENT = replace(AHEAD, movement=replace(AHEAD.movement, copy_source="executor"))
LOADED = replace(AHEAD, movement=replace(AHEAD.movement, copy_source="storage"))


def copies_of(run: RunningQuery) -> SparkStateCopies:
    copies = run.attachment._application.copies
    assert isinstance(copies, SparkStateCopies)
    return copies


def copied(run: RunningQuery, source: CopySource = "executor") -> Copied:
    """Copy all state to the second executor, and drop the copies."""
    copies, second = copies_of(run), run.executor_ids()[1]
    found = copies.copy(dict.fromkeys(run.tasks, second), soon=True, source=source, ticket=Ticket())
    copies.drop()
    until(lambda: not held(run), "the copies are dropped")
    return found


def held(run: RunningQuery) -> list[str]:
    """What executors still have of copies."""
    copies = copies_of(run)
    reports = [copies._keepers.read(executor) for executor in run.executor_ids()]
    return [key for report in reports if report is not None for key in report.copies]


def offers(run: RunningQuery) -> list[str]:
    """What executors still offer of their state."""
    copies = copies_of(run)
    reports = [copies._keepers.read(executor) for executor in run.executor_ids()]
    return [key for report in reports if report is not None for key in report.offers]


def test_state_comes_from_its_owner_and_a_restart_finds_all_of_it(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update", policy=SENT) as run:
        swap_ahead(run)
        last = ends(run)[-1].figures
        assert last["bytes_from_executors"] > 0
        assert last["bytes_from_storage"] == 0
        until(lambda: not offers(run), "everything that was offered is taken back")
        run.pass_batches(2)
        run.query.stop()
    with running(
        aggregation(spark), mode="update", policy=LOADED, checkpoint=run.checkpoint
    ) as run:
        run.pass_batches(1)
        figures = swap(run)
        assert figures["bytes_from_executors"] == 0
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())


@pytest.mark.slow
def test_what_cannot_be_offered_is_loaded_and_then_sent_once_it_can(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        run.settle(dict.fromkeys(run.tasks, run.executor_ids()[0]))
        copies = copies_of(run)
        with monkeypatch.context() as patch:
            patch.setattr(copies._slots, "require", has_no_slot_for_offers)
            found = copied(run)
        assert found.tasks == frozenset(run.tasks), found.why
        assert found.bytes_from_executors == 0
        assert found.choice.endswith("no offers: too few slots")
        with monkeypatch.context() as patch:  # as those of a query in Real-time Mode do
            patch.setattr(copies._queries, "holds_stores", lambda _: True)
            assert copied(run).bytes_from_executors == 0
        found = copied(run)
        assert found.tasks == frozenset(run.tasks), found.why
        assert (found.bytes_from_storage, found.bytes_from_executors > 0) == (0, True), found.choice
        until(lambda: not offers(run), "everything that was offered is taken back")


def has_no_slot_for_offers(what: str, *_: object, **__: object) -> None:
    if what == "no offers":
        raise SparkError(f"{what}: too few slots")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["owner", "target"])
def test_a_kill_while_state_is_sent_loses_nothing(spark: SparkSession, victim: str) -> None:
    with running(aggregation(spark), mode="update", policy=SENT) as run:
        first, second = run.executor_ids()
        run.settle(dict.fromkeys(run.tasks, first))
        run.attachment.move(dict.fromkeys(run.tasks, second))
        until(lambda: bool(copies_of(run)._transfers.owners), "state is sent")
        kill(spark, first if victim == "owner" else second)
        until(lambda: run.attachment.wait(1.0), "the change has ended")
        run.pass_batches(4)
        swap_all(run)
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())


@pytest.mark.slow
def test_a_join_in_checkpoint_format_2_stays_exact_when_its_state_is_sent(
    spark: SparkSession,
) -> None:
    with (
        session_with(
            spark, join__stateFormatVersion="2", stateStore__checkpointFormatVersion="2"
        ) as own,
        running(join(own), mode="append", sink="memory", policy=SENT) as run,
    ):
        swap_ahead(run)
        assert ends(run)[-1].figures["bytes_from_executors"] > 0
        rows = Counter(int(str(key)) for key, *_ in table_of(run).elements())
        assert rows == Counter(range(LATER, max(rows) + 1))
