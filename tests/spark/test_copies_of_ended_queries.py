"""Copies of the state of a query that ends while they are requested."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import BY_HAND, running, until
from tests.spark.streams import aggregation

from elastream.core.ports import Ticket
from elastream.model.errors import QueryRefusedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.spark.internals.queries import RunningQuery as Run


def test_nothing_is_kept_of_a_query_that_ends_while_its_orders_are_made(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(aggregation(spark), mode="update", policy=BY_HAND) as run:
        copies, where = run.attachment._application.copies, run.where()
        first, second = run.executor_ids()
        wanted = {task: second if node == first else first for task, node in where.items()}
        queries = copies._internals.queries
        last_batch = queries.committed_batch

        def ends_meanwhile(query: Run) -> int | None:
            batch = last_batch(query)
            run.query.stop()
            until(lambda: run.monitor.named(run.sink) is None, "the monitor has heard of its end")
            until(lambda: run.sink not in run.attachment.state.queries, "all have been informed")
            return batch

        monkeypatch.setattr(queries, "committed_batch", ends_meanwhile)
        with pytest.raises(QueryRefusedError, match=f"query {run.sink} has ended"):
            copies.copy(wanted, soon=False, ticket=Ticket())
        assert (copies._queries._committed, copies._queries._books) == ({}, {})
