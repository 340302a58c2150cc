"""State goes from executor to executor on live executors, exactly, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import RunningQuery, running, until
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state
from tests.spark.test_copies import AHEAD, ends, swap, swap_ahead

from elastream.spark.internals.variants import installed_variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    installed_variant().send_methods is None, reason="this Spark loads from storage alone"
)


SENT = replace(AHEAD, movement=replace(AHEAD.movement, copy_source="executor"))
LOADED = replace(AHEAD, movement=replace(AHEAD.movement, copy_source="storage"))


def offers(run: RunningQuery) -> list[str]:
    """What executors still offer of their state."""
    copies = run.attachment._application.copies
    assert copies is not None
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
