from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import PATIENCE_S, RunningQuery, running
from tests.spark.streams import (
    LATER,
    aggregation,
    aggregation_answer,
    aggregation_state,
    join,
    running_counts,
    windowed,
    windowed_answer,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def exact_aggregation(run: RunningQuery) -> bool:
    """Whether the state on disk equals the counts and sums of all rows read; stops the query."""
    run.query.stop()
    state = aggregation_state(run.spark, str(run.checkpoint))
    return state == aggregation_answer(run.committed_rows())


@pytest.mark.slow
def test_an_aggregation_stays_exact_through_five_random_migrations(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update") as run:
        run.settle_intervals(run.executor_ids())
        run.migrate_at_random(5, seed=7)
        assert exact_aggregation(run)


@pytest.mark.slow
def test_an_aggregation_stays_exact_through_scale_out_and_scale_in(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update") as run:
        run.attachment.scale_to(3)
        assert run.attachment.wait(PATIENCE_S)
        assert len(set(run.where().values())) == 3
        run.attachment.scale_to(2)
        assert run.attachment.wait(PATIENCE_S)
        assert set(run.where().values()) == set(run.executor_ids())
        assert len(run.executor_ids()) == 2
        run.pass_batches(2)
        assert exact_aggregation(run)


def test_a_windowed_aggregation_with_watermark_stays_exact(spark: SparkSession) -> None:
    with running(windowed(spark), mode="append", sink="memory") as run:
        run.settle_intervals(run.executor_ids())
        run.migrate_at_random(3, seed=11)
        run.pass_batches(3)
        run.query.stop()
        counts = Counter(tuple(row) for row in spark.table(run.sink).collect())
        windows = len({start for start, _, _ in counts})
        assert windows >= 2
        assert counts == windowed_answer(windows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_join_stays_exact_through_twenty_random_migrations(
    spark: SparkSession, seed: int
) -> None:
    with running(join(spark), mode="append", sink="memory") as run:
        run.migrate_at_random(20, seed=seed)
        run.query.stop()
        counts = Counter(row[0] for row in spark.table(run.sink).collect())
        assert counts == Counter(range(LATER, max(counts) + 1))


@pytest.mark.slow
def test_windows_stay_exact_through_twenty_random_migrations(spark: SparkSession) -> None:
    with running(windowed(spark), mode="append", sink="memory") as run:
        run.migrate_at_random(20, seed=19)
        run.query.stop()
        counts = Counter(tuple(row) for row in spark.table(run.sink).collect())
        assert counts == windowed_answer(len({start for start, _, _ in counts}))


@pytest.mark.slow
def test_transform_with_state_stays_exact_through_twenty_random_migrations(
    spark: SparkSession,
) -> None:
    with running(running_counts(spark), mode="update", sink="memory") as run:
        run.migrate_at_random(20, seed=23)
        run.query.stop()
        rows = spark.table(run.sink).groupBy("key").max("n").collect()
        counts = {row[0]: row[1] for row in rows}
        expected = aggregation_answer(sum(counts.values()))
        assert counts == {key: n for key, (n, _) in expected.items()}
