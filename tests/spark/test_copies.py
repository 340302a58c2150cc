"""State travels ahead of its task on live executors: whatever keeps it, and exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.spark.processes import kill
from tests.spark.running_query import BY_HAND, PATIENCE_S, RunningQuery, running, until
from tests.spark.streams import (
    FIRST,
    KEYS,
    LATER,
    aggregation,
    aggregation_answer,
    aggregation_state,
    counts_in_pandas,
    first_seen,
    join,
    running_counts,
    sessions,
    sessions_answer,
    window_totals,
    window_totals_answer,
)

from elastream.core.decisions import Decision
from elastream.core.ports import Ticket
from elastream.spark.internals.keepers import Keepers, run_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals

AHEAD = replace(BY_HAND, movement=replace(BY_HAND.movement, copy_least_bytes=0))
TRIES = 20
"""How many moves there may be until one is taken over whole; a busy machine may be late."""


@contextmanager
def session_with(spark: SparkSession, **settings: str) -> Iterator[SparkSession]:
    """The session, with settings that queries started now keep."""
    wanted = {f"spark.sql.streaming.{n.replace('__', '.')}": v for n, v in settings.items()}
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def ends(run: RunningQuery) -> list[Decision]:
    return [decision for decision in run.decisions if decision.kind == "done"]


def swap(run: RunningQuery) -> Mapping[str, float]:
    """Let every task go to the other executor; return the figures of the change."""
    before = len(ends(run))
    first, second = run.executor_ids()
    run.settle({task: second if node == first else first for task, node in run.where().items()})
    until(lambda: len(ends(run)) > before, "the log has it")
    return ends(run)[-1].figures


def swap_ahead(run: RunningQuery) -> None:
    """Move all tasks until all of one move had their state ahead of them."""
    reports = []
    for _ in range(TRIES):
        figures = swap(run)
        if figures["tasks_ahead"] == figures["tasks_moved"] == len(run.tasks):
            return
        reports += [d.reason for d in run.decisions if d.kind == "copy"][-1:]
    raise AssertionError(reports)


def table_of(run: RunningQuery) -> Counter[tuple[object, ...]]:
    run.query.stop()
    return Counter(tuple(row) for row in run.spark.table(run.sink).collect())


def test_an_aggregation_finds_its_state_and_stays_exact(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        run.settle_intervals(run.executor_ids())
        swap_ahead(run)
        run.migrate_at_random(2, seed=3)
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())


@pytest.mark.slow
def test_an_aggregation_in_checkpoint_format_2_stays_exact(spark: SparkSession) -> None:
    with (
        session_with(spark, stateStore__checkpointFormatVersion="2") as own,
        running(aggregation(own), mode="update", policy=AHEAD) as run,
    ):
        run.settle_intervals(run.executor_ids())
        swap_ahead(run)
        run.migrate_at_random(1, seed=5)
        run.query.stop()
        state = aggregation_state(own, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())


@pytest.mark.slow
@pytest.mark.parametrize("version", "234")
def test_a_join_of_every_state_format_that_spark_begins_stays_exact(
    spark: SparkSession, version: str
) -> None:
    with (
        session_with(spark, join__stateFormatVersion=version) as own,
        running(join(own), mode="append", sink="memory", policy=AHEAD) as run,
    ):
        stores = {len(operator.stores) for operator in run.watched.operators}
        assert stores == ({4} if version == "2" else {1})
        swap_ahead(run)
        rows = Counter(int(str(key)) for key, *_ in table_of(run).elements())
        assert rows == Counter(range(LATER, max(rows) + 1))


def counts(rows: Counter[tuple[object, ...]]) -> dict[object, object]:
    found: dict[object, int] = {}
    for key, n in rows:
        assert isinstance(n, int)
        found[key] = max(n, found.get(key, 0))
    return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [running_counts, counts_in_pandas])
def test_state_of_python_functions_stays_exact(
    spark: SparkSession, stream: Callable[[SparkSession], DataFrame]
) -> None:
    with running(stream(spark), mode="update", sink="memory", policy=AHEAD) as run:
        swap_ahead(run)
        found = counts(table_of(run))
        rows = sum(int(str(n)) for n in found.values())
        assert found == {key: n for key, (n, _) in aggregation_answer(rows).items()}


@pytest.mark.slow
def test_what_was_seen_before_is_known_where_it_moved_to(spark: SparkSession) -> None:
    with running(first_seen(spark), mode="append", sink="memory", policy=AHEAD) as run:
        swap_ahead(run)
        run.pass_batches(4)
        assert table_of(run) == Counter((key,) for key in range(FIRST))


@pytest.mark.slow
def test_sessions_stay_exact(spark: SparkSession) -> None:
    with running(sessions(spark), mode="append", sink="memory", policy=AHEAD) as run:
        swap_ahead(run)
        run.pass_batches(4)
        report = table_of(run)
        assert len(report) >= KEYS
        assert report == sessions_answer(len(report) // KEYS)


@pytest.mark.slow  # test_shapes.py moves such tasks in every run
def test_operators_in_a_row_stay_exact(spark: SparkSession) -> None:
    with running(window_totals(spark), mode="append", sink="memory", policy=AHEAD) as run:
        assert len(run.watched.operators) == 2
        swap_ahead(run)
        run.pass_batches(6)
        report = table_of(run)
        assert report
        assert report == window_totals_answer(len(report))


STORE_PROPERTIES = """
public Object generate(Object[] references) { return new Stored(); }

static final class Stored extends org.apache.spark.sql.execution.BufferedRowIterator {
  private boolean done = false;

  public void init(int index, scala.collection.Iterator[] inputs) { partitionIndex = index; }

  protected void processNext() throws java.io.IOException {
    if (done) return;
    done = true;
    java.io.ByteArrayOutputStream out = new java.io.ByteArrayOutputStream();
    System.getProperties().store(out, "");
    Object[] row = new Object[] {
      org.apache.spark.unsafe.types.UTF8String.fromString(String.valueOf(out.size())) };
    append(new org.apache.spark.sql.catalyst.expressions.GenericInternalRow(row));
  }
}
"""


def stored_properties(internals: SparkInternals, executor: ExecutorEntry) -> int:
    """Store the system properties of an executor as a program may; return the bytes they take."""
    comments = internals.jvm.PythonUtils.toScalaMap(internals.jvm.java.util.HashMap())
    codegen = internals.jvm.org.apache.spark.sql.catalyst.expressions.codegen
    return int(run_on(internals, executor, codegen.CodeAndComment(STORE_PROPERTIES, comments), []))


def test_copies_end_with_their_change_and_are_none_of_spark_s(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        first, second = run.executor_ids()
        run.settle(dict.fromkeys(run.tasks, first))
        copies = run.attachment._application.copies
        assert copies is not None
        copied = copies.copy(dict.fromkeys(run.tasks, second), soon=True, ticket=Ticket())
        assert copied.tasks == frozenset(run.tasks), copied.why
        assert copied.why is None
        run.pass_batches(3)
        assert set(run.where().values()) == {first}, "a copy attracts no task"
        entry = next(each for each in run.internals.executors() if each.id == second)
        assert stored_properties(run.internals, entry) > 0, "a user's program may store them"
        copies.drop()
        run.pass_batches(2)
        assert set(run.where().values()) == {first}
        assert copies.take(dict.fromkeys(run.tasks, second)) == frozenset()
        assert Keepers(run.internals).missing_name() is None
        copies._missing = "a.name"
        none = copies.copy(dict.fromkeys(run.tasks, second), soon=True, ticket=Ticket())
        assert (none.tasks, none.why) == (frozenset(), "this Spark lacks a.name")


def test_where_state_cannot_be_copied_it_is_moved_all_the_same(spark: SparkSession) -> None:
    with (
        session_with(
            spark,
            stateStore__providerClass="org.apache.spark.sql.execution.streaming.state"
            ".HDFSBackedStateStoreProvider",
        ) as own,
        running(aggregation(own), mode="update", policy=AHEAD) as run,
    ):
        figures = swap(run)
        assert figures["tasks_ahead"] == 0
        (decisions,) = (d.reason for d in run.decisions if d.kind == "copy")
        assert "its state is in a HDFSBackedStateStoreProvider" in decisions


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["owner", "target"])
@pytest.mark.parametrize("phase", ["Copying", "Moving", "Steady"])
def test_a_kill_while_state_travels_moves_or_has_moved_loses_nothing(
    spark: SparkSession, victim: str, phase: str
) -> None:
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        first, second = run.executor_ids()
        run.settle(dict.fromkeys(run.tasks, first))
        run.attachment.move(dict.fromkeys(run.tasks, second))
        until(lambda: type(run.attachment.state.phase).__name__ == phase, f"it is {phase}")
        kill(spark, first if victim == "owner" else second)
        until(lambda: run.attachment.wait(1.0), "the change has ended")
        run.pass_batches(4)
        swap_all(run)
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())


def swap_all(run: RunningQuery) -> None:
    """Move every task to the executor that came last, once it is known where they are."""
    until(lambda: len(run.attachment.executors()) == 2, "the killed one was replaced")
    until(lambda: len(run.where()) == len(run.tasks), "it is known where tasks are")
    last = run.attachment.executors()[-1].id
    run.attachment.move(dict.fromkeys(run.tasks, last))
    assert run.attachment.wait(PATIENCE_S)


@pytest.mark.slow
def test_a_join_and_format_2_stay_exact_through_twenty_random_moves(spark: SparkSession) -> None:
    with (
        session_with(
            spark, join__stateFormatVersion="2", stateStore__checkpointFormatVersion="2"
        ) as own,
        running(join(own), mode="append", sink="memory", policy=AHEAD) as run,
    ):
        run.migrate_at_random(20, seed=29)
        rows = Counter(int(str(key)) for key, *_ in table_of(run).elements())
        assert rows == Counter(range(LATER, max(rows) + 1))
        ahead = sum(end.figures["tasks_ahead"] for end in ends(run))
        assert ahead > 0
