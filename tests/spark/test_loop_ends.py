"""Attachments that share a loop, and how the loop ends: once, and for all of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import BY_HAND, PATIENCE_S, back_to_two, until
from tests.spark.streams import aggregation

from elastream import Attachment, attach
from elastream.spark.door.private_door import PrivateDoor
from elastream.spark.sessions.embedded_cluster import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PAUSES = replace(BY_HAND, mechanism="pause")


@pytest.fixture
def start(spark: SparkSession) -> Iterator[Callable[[], StreamingQuery]]:
    """What starts a query, and starts it again."""
    folder = scratch_folder(spark) / f"ends-{time.monotonic_ns()}"

    def begin() -> StreamingQuery:
        writer = aggregation(spark).writeStream.format("noop").outputMode("update")
        writer = writer.queryName("counting").option("checkpointLocation", str(folder))
        return writer.trigger(processingTime="300 milliseconds").start()

    yield begin
    for query in spark.streams.active:
        query.stop()
    back_to_two(PrivateDoor.of(spark))
    shutil.rmtree(folder, ignore_errors=True)


def swap(attachment: Attachment) -> None:
    """Ask every task to go to the other executor."""
    until(lambda: len(attachment.where()) == 4, "all tasks were seen")
    first, second = [each.id for each in attachment.executors()]
    there = attachment.where()
    attachment.move({task: second if at == first else first for task, at in there.items()})


def share_a_loop(one: Attachment, other: Attachment) -> bool:
    return one.monitor is other.monitor


def test_detaching_twice_leaves_the_loop_of_a_newer_attachment_alone(
    start: Callable[[], StreamingQuery],
) -> None:
    query = start()
    first = attach(query, BY_HAND)
    first.detach()
    with attach(query, BY_HAND) as second:
        first.detach()
        with attach(query, BY_HAND) as third:
            assert share_a_loop(second, third)
            second.detach()
            second.detach()
            until(lambda: len(third.where()) == 4, "the loop goes on for the third")
    assert query.isActive


def test_restart_functions_leave_with_the_attachment_that_brought_them(
    start: Callable[[], StreamingQuery],
) -> None:
    query, starts = start(), list[str]()

    def start_by(name: str) -> Callable[[], StreamingQuery]:
        def start_again() -> StreamingQuery:
            starts.append(name)
            return start()

        return start_again

    with attach(query, PAUSES, restart=start_by("older")) as older:
        newer = attach(query, PAUSES, restart=start_by("newer"))
        swap(older)
        assert older.wait(PATIENCE_S)
        newer.detach()
        swap(older)
        assert older.wait(PATIENCE_S)
    assert starts == ["newer", "older"]
