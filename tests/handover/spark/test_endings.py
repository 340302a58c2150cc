"""What an offered query says of its end."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.handover.spark.grouped_sums import grouped_sums
from tests.handover.spark.handing import PATIENCE_S, START_MS, Pace

from elastream.handover.offering import offer
from elastream.handover.spark.origin_stream import OriginStream
from elastream.handover.spark.sinks import Sink
from elastream.handover.spark.windowed import WindowedQuery
from elastream.model.errors import SparkError
from elastream_lab.applications.readings.source import Readings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class _Breaking:
    """A sink whose write begins, and fails on request."""

    def __init__(self) -> None:
        self.begun, self.break_now = threading.Event(), threading.Event()

    def __call__(self, _: object) -> Sink:
        def write(_results: DataFrame, _number: int) -> None:
            self.begun.set()
            self.break_now.wait(PATIENCE_S)
            raise ValueError("the write was cut short")

        return write


def _query(folder: Path, sink: _Breaking) -> WindowedQuery:
    made = Readings(START_MS, 200, gap_ms=40, clock=str(folder / "clock"))
    Pace(folder).go(2000)
    return replace(grouped_sums(made, length_ms=100, slide_ms=100), sink=sink)


def test_a_batch_that_fails_as_the_query_is_stopped_is_no_failure_of_the_query(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, ended = _Breaking(), list[OriginStream]()
    stop = OriginStream.stop

    def breaking_stop(stream: OriginStream) -> None:
        assert stream.streaming is not None
        sink.break_now.set()
        with suppress(Exception):
            stream.streaming.awaitTermination(int(PATIENCE_S))
        stop(stream)
        ended.append(stream)

    monkeypatch.setattr(OriginStream, "stop", breaking_stop)
    offered = offer(_query(tmp_path, sink), tmp_path, spark=spark)
    assert sink.begun.wait(PATIENCE_S)
    offered.stop()
    assert offered.wait()
    assert not offered.is_over
    (stream,) = ended
    assert stream.streaming is not None
    assert "cut short" in str(stream.streaming.exception())


def test_a_batch_that_breaks_before_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    sink = _Breaking()
    sink.break_now.set()
    offered = offer(_query(tmp_path, sink), tmp_path, spark=spark)
    with pytest.raises(SparkError) as message:
        offered.wait(PATIENCE_S)
    assert str(message.value) == "the query has ended: ValueError: the write was cut short"
