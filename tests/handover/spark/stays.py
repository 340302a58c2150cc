"""Queries of one session that go from place to place, at the pace of whoever has them."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.handover.spark.expected import Expected, Result
from tests.handover.spark.handing import ALL_MS, PATIENCE_S, Pace, written

from elastream.atomic_io import write_text
from elastream.handover.folders import given, taken
from elastream.handover.model import Start
from elastream.handover.offering import OfferedQuery, offer, take
from elastream.handover.spark.sources import files_since
from elastream.handover.spark.target_stream import TargetStream
from elastream.handover.spark.windowed import WindowedQuery
from elastream_lab.applications.readings.source import Readings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FilePace(Pace):
    """Writes the readings that are due as files: a busy machine may keep Python workers away."""

    def __init__(self, folder: Path, made: Readings, step_ms: int) -> None:
        self._made, self._folder, self._written = made, folder / "rows", 0
        self._folder.mkdir()
        super().__init__(folder, step_ms)

    def go(self, by_ms: int) -> None:
        super().go(by_ms)
        due = self._made.all()[self._written : self._made.due_by(self.now_ms)]
        names = ("position", "at_ms", "place", "measure")
        lines = [json.dumps(dict(zip(names, reading, strict=True))) + "\n" for reading in due]
        if lines:
            write_text(self._folder / f"{self._written}.json", "".join(lines))
        self._written += len(due)

    def inputs(self, spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
        schema = "position BIGINT, at_ms BIGINT, place STRING, measure BIGINT"
        files = files_since(spark.readStream.schema(schema).json(str(self._folder)), start)
        return (files.selectExpr("position", "timestamp_millis(at_ms) AS at", "place", "measure"),)


class Stays:
    """A query that one place offers and the next ones take, each for a while.

    Each has a session of its own: two queries of one session cannot have the same name.
    """

    def __init__(
        self, spark: SparkSession, query: WindowedQuery, folder: Path, pace: FilePace
    ) -> None:
        self._spark, self._folder, self._pace = spark, folder, pace
        self._query = replace(query, inputs=pace.inputs)
        self.lines: list[str] = []
        self.offered: list[OfferedQuery] = []

    def begin(self, place: str) -> None:
        self.offered.append(
            offer(
                self._query, self._folder / place, spark=self._spark.newSession(), patience_s=120,
                on_event=self.lines.append,
            )
        )  # fmt: skip
        self.await_until(lambda: bool(self.put_out()))

    def go_to(self, place: str, *, restart: bool = False) -> None:
        """Hand the query on; with ``restart`` both sides are stopped and continue in between."""
        origin = self.offered[-1]
        self.offered.append(
            take(
                self._query, origin.address, origin.token_file, self._folder / place,
                spark=self._spark.newSession(), patience_s=120, on_event=self.lines.append,
            )
        )  # fmt: skip
        target = self.offered[-1]
        self.await_until(lambda: self._state(target.folder) == "owns")
        if restart:
            self._restart()
        before = self.put_out()
        self.await_until(lambda: self.offered[-2].is_over and self.put_out() != before)

    def await_until(self, holds: object) -> None:
        assert callable(holds)
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.lines
            for each in self.offered[-2:]:
                each.wait(0)  # raises what has failed
            self._follow()
            time.sleep(0.1)

    def check_whole(self, expected: Expected) -> None:
        self._pace.go(ALL_MS)
        self.await_until(lambda: self.put_out() >= expected.sure)
        assert self.put_out() <= expected.possible
        self.offered[-1].stop()

    def put_out(self) -> Counter[Result]:
        found: Counter[Result] = Counter()
        for place in self._folder.iterdir():
            found += written(place / "results")
        return found

    def close(self) -> None:
        for each in self.offered:
            each.stop()

    def _restart(self) -> None:
        """Stop and continue the two that take part, as if their drivers had been restarted."""
        for number in (-1, -2):
            stopped = self.offered[number]
            stopped.stop()
            self.offered[number] = offer(
                self._query, stopped.folder, spark=self._spark.newSession(),
                address=stopped.address, patience_s=120, on_event=self.lines.append,
            )  # fmt: skip

    def _follow(self) -> None:
        """Let time go on with the batches of the origin, and of a target that looks for rows."""
        followed = []
        for each in self.offered[-2:]:
            stream = each._stream
            if each.is_over:
                continue
            if isinstance(stream, TargetStream) and self._state(each.folder) != "owns":
                if stream.first_seen() is None:
                    followed.append(each.folder / ("probe" if self._query.rows else "checkpoint"))
                continue
            followed.append(each.folder / "checkpoint")
        if all(each.exists() for each in followed):
            self._pace.follow(*followed)

    @staticmethod
    def _state(folder: Path) -> str | None:
        record = taken(folder).read()
        return None if record is None else record.state


def is_over(folder: Path) -> bool:
    """Whether the record of the place says that the query has left with all written."""
    record = given(folder).read()
    return record is not None and record.finished
