"""Work without state has a place where a user wants it, and its rows stay what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import PATIENCE_S, running
from tests.spark.streams import KEYS, START, WINDOW, numbers

from elastream import ProblemError, placed
from elastream.resilience import measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def parsed(rows: DataFrame) -> DataFrame:
    """A parser and a filter: the value from a text, where it is even."""
    from pyspark.sql import functions as f

    text = f.concat(f.lit("value="), f.col("value"))
    value = f.regexp_extract(text, r"value=(\d+)", 1).cast("long")
    return rows.select("timestamp", value.alias("value")).where(value % 2 == 0)


def counted(spark: SparkSession) -> DataFrame:
    """Windows over rows that were parsed in a place of their own."""
    from pyspark.sql import functions as f

    stamped = parsed(placed(numbers(spark), "value")).withWatermark("timestamp", "1 second")
    window = f.window("timestamp", f"{WINDOW} seconds")
    counts = stamped.groupBy(window, (f.col("value") % KEYS).alias("key")).count()
    return counts.select(f.unix_timestamp("window.start").alias("start"), "key", "count")


def test_its_tasks_go_where_they_are_asked_to_and_no_row_is_lost(spark: SparkSession) -> None:
    with running(parsed(placed(numbers(spark))), mode="append", sink="memory") as run:
        assert len(run.tasks) == 4
        for executor in run.executor_ids():
            run.settle(dict.fromkeys(run.tasks, executor))
        run.migrate_at_random(3, seed=5)
    values = sorted(row.value for row in spark.table(run.sink).collect())
    assert values == list(range(0, run.committed_rows(), 2))


@pytest.mark.slow  # test_monitor.py places such operators apart
def test_it_and_the_operator_that_follows_are_placed_apart(spark: SparkSession) -> None:
    with running(counted(spark), mode="append", sink="memory") as run:
        operators = sorted({task.operator for task in run.tasks})
        assert len(operators) == 2
        assert len(run.tasks) == 8
        here, there = run.executor_ids()
        apart = {t: here if t.operator == operators[0] else there for t in run.tasks}
        run.settle(apart)
        run.settle({task: there if node == here else here for task, node in apart.items()})
        run.pass_batches(WINDOW + 2)
    found = spark.table(run.sink).collect()
    assert found
    each_batch = 200
    for row in found:
        first = max(row.start - START, 0) * each_batch
        after = (row.start - START + WINDOW) * each_batch
        expected = sum(1 for v in range(first, after, 2) if v % KEYS == row.key)
        assert row["count"] == expected, row


@pytest.mark.slow  # test_measure.py measures
def test_a_trial_run_measures_it_as_an_operator_that_feeds_the_next(spark: SparkSession) -> None:
    with running(counted(spark), mode="append") as run:
        run.attachment.detach()
        found = measure([run.query], ["numbers"], batches=4, timeout_s=PATIENCE_S)
    first = [operator for operator in found.graph.operators if operator.inputs == ("numbers",)]
    second = [operator for operator in found.graph.operators if operator not in first]
    assert (len(first), len(second)) == (4, 4)
    assert any(operator.cost + operator.fixed > 0 for operator in first), "its tasks take time"
    assert all(0 < (operator.selectivity or 0) < 1 for operator in first), "filtered, and counted"
    fed = {source for operator in second for source in operator.inputs}
    assert fed == {operator.name for operator in first}


def test_rows_of_a_batch_are_as_they_were_and_refusals_name_the_column(spark: SparkSession) -> None:
    rows = spark.range(3)
    assert placed(rows) is rows
    with pytest.raises(ProblemError, match="'nothing' is no column"):
        placed(rows, "nothing")
    maps = spark.sql("SELECT map(1, 2) AS found, 1 AS id")
    with pytest.raises(ProblemError, match="does not tell rows apart"):
        placed(maps, "found")
    assert placed(maps) is maps
