"""What a command shows of the query that it ran."""

from __future__ import annotations

import threading
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.handover.spark.grouped_sums import grouped_sums
from tests.handover.spark.handing import PATIENCE_S, START_MS, Pace

from elastream.handover.commands.sides import SideRun, run_origin
from elastream.handover.spark.origin_stream import OriginStream
from elastream.handover.spark.sinks import Sink
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


def _side(spark: SparkSession, folder: Path, sink: _Breaking) -> SideRun:
    made = Readings(START_MS, 200, gap_ms=40, clock=str(folder / "clock"))
    Pace(folder).go(2000)
    query = replace(grouped_sums(made, length_ms=100, slide_ms=100), sink=sink)
    return SideRun(query, folder, nullcontext(spark), threading.Event(), 1, None)


def test_a_batch_that_fails_as_the_side_ends_is_no_failure_of_the_query(
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
    run_origin(_side(spark, tmp_path, sink), lambda _: sink.begun.wait(PATIENCE_S), None)
    (stream,) = ended
    assert stream.streaming is not None
    assert "cut short" in str(stream.streaming.exception())


def test_a_batch_that_breaks_before_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    sink = _Breaking()
    sink.break_now.set()
    side = _side(spark, tmp_path, sink)
    with pytest.raises(SparkError) as message:
        run_origin(side, lambda _: side.stop.wait(PATIENCE_S), None)
    assert str(message.value) == "the query has ended: ValueError: the write was cut short"
