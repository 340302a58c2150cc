"""Two queries in one session, each with its own checkpoint, hand over through a loopback socket."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from elastream.control.handover.events import Timing
from elastream.control.handover.ledger import Note, RecordFile
from elastream.control.handover.session import hand_over, take_over
from elastream.control.handover.transport import Address, OriginServer, TargetLink
from elastream.model.errors import ProblemError
from elastream.spark.handover.queries import grouped_sums, joined_readings, row_sums
from elastream.spark.handover.readings import Readings
from elastream.spark.handover.windowed import (
    OriginStream,
    TargetStream,
    WindowedQuery,
    json_lines,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOKEN = "a token that is long enough"
PATIENCE_S = 240.0
TIMING = Timing(repeat_ms=500, patience_ms=120_000)
Result = tuple[Any, ...]


START_MS = 1_750_000_000_000


class Pace:
    """The time of the streams, which goes as fast as the queries can follow."""

    def __init__(self, folder: Path) -> None:
        self.path, self.now_ms = folder / "clock", START_MS
        self._batches = self._polls = 0
        self.go(2000)

    def follow(self, commits: Path) -> None:
        """Go on when a batch has been committed, or when none comes: maybe there are no rows."""
        batches = len(list(commits.glob("[0-9]*")))
        self._polls = 0 if batches != self._batches else self._polls + 1
        self._batches = batches
        if self._polls % 10 == 0:
            self.go(300)

    def go(self, by_ms: int) -> None:
        self.now_ms += by_ms
        temporary = self.path.with_name("clock.new")
        temporary.write_text(str(self.now_ms))
        temporary.replace(self.path)


def readings(folder: Path, rows: int = 1000) -> Readings:
    clock = str(folder / "clock")
    return Readings(START_MS, rows=rows, gap_ms=40, places=4, clock=clock)


def written(folder: Path) -> Counter[Result]:
    lines = [
        json.loads(line)
        for file in folder.glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    return Counter(tuple(line[name] for name in sorted(line)) for line in lines)


def sums(made: Readings, length: int, slide: int) -> Counter[Result]:
    """Every window that some later reading closes: start, place, rows, total."""
    rows, found = made.all(), Counter[Result]()
    last = rows[-1][1]
    for start in range(rows[0][1] // slide * slide - length, last - length + 1, slide):
        inside = [row for row in rows if start <= row[1] < start + length]
        for place in sorted({row[2] for row in inside}):
            measures = [row[3] for row in inside if row[2] == place]
            found[start, place, len(measures), sum(measures)] += 1
    return found


def row_windows(made: Readings, length: int, slide: int) -> Counter[Result]:
    rows = made.all()
    return Counter(
        (start, rows[start][1], sum(row[3] for row in rows[start : start + length]))
        for start in range(0, len(rows) - length + 1, slide)
    )


def pairs(made: Readings, length: int) -> Counter[Result]:
    from dataclasses import replace

    left, right = (replace(made, stream=stream).all() for stream in (0, 1))
    return Counter(
        (min(s[1], t[1]), s[3], s[2], s[0], t[3], t[0])
        for s in left
        for t in right
        if s[2] == t[2] and abs(s[1] - t[1]) < length
    )


class Handover:
    def __init__(self, spark: SparkSession, query: WindowedQuery, folder: Path) -> None:
        self.folder, self.notes, self.pace = folder, list[Note](), Pace(folder)
        self.origin = OriginStream(query, json_lines(folder / "origin-out"), folder / "origin")
        self.target = TargetStream(
            query, json_lines(folder / "target-out"), folder / "target", spark
        )
        self.server = OriginServer(Address(), TOKEN)
        self.stop = threading.Event()
        self._query, self._spark, self._threads = query, spark, list[threading.Thread]()

    def serve(self) -> None:
        self.origin.start(self._spark)
        self._run(
            lambda: hand_over(
                self.origin, self._query.shape, self.server,
                RecordFile(self.folder / "origin.json"),
                log=self.notes.append, stop=self.stop, timing=TIMING,
            )
        )  # fmt: skip

    def join(self) -> None:
        link = TargetLink(self.server.address, TOKEN)
        self._run(
            lambda: take_over(
                self.target, self._query.shape, link, RecordFile(self.folder / "target.json"),
                log=self.notes.append, stop=self.stop, timing=TIMING,
            )
        )  # fmt: skip

    def _run(self, act: Callable[[], object]) -> None:
        thread = threading.Thread(target=act)
        thread.start()
        self._threads.append(thread)

    def put_out(self) -> Counter[Result]:
        return written(self.folder / "origin-out") + written(self.folder / "target-out")

    def await_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, (self.notes, len(self.put_out()))
            for stream in (self.origin.streaming, self.target.streaming):
                assert stream is None or stream.isActive, stream.exception()
            self.follow()
            time.sleep(0.2)

    def follow(self) -> None:
        """Let time go on when the origin has caught up with it."""
        self.pace.follow(self.folder / "origin" / "checkpoint" / "commits")

    def close(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(60)
        self.origin.stop()
        self.target.stop()
        self.server.close()


@contextmanager
def handover(spark: SparkSession, query: WindowedQuery, folder: Path) -> Iterator[Handover]:
    run = Handover(spark, query, folder)
    try:
        yield run
    finally:
        run.close()


def check(
    spark: SparkSession, query: WindowedQuery, expected: Counter[Result], folder: Path
) -> None:
    """Both sides together put out what is expected, each result once, and both put out some."""
    with handover(spark, query, folder) as run:
        run.serve()
        run.await_until(lambda: bool(written(folder / "origin-out")))
        run.join()
        run.await_until(lambda: {"own", "finish"} <= {note.kind for note in run.notes})
        run.pace.go(3_600_000)
        run.await_until(lambda: run.put_out() >= expected)
        assert run.put_out() == expected
        boundary = next(note.boundary for note in run.notes if note.kind == "commit")
        assert boundary is not None
        own, taken = (
            {result[0] for result in written(folder / name)}
            for name in ("origin-out", "target-out")
        )
        assert own
        assert taken
        assert max(own) < boundary.activation <= min(taken)


@pytest.mark.parametrize(
    ("length", "slide"), [(1000, 1000), pytest.param(3000, 1000, marks=pytest.mark.slow)]
)
def test_time_windows_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path, length: int, slide: int
) -> None:
    made = readings(tmp_path)
    query = grouped_sums(made, length_ms=length, slide_ms=slide)
    check(spark, query, sums(made, length, slide), tmp_path)


@pytest.mark.parametrize("slide", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_row_windows_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path, slide: int
) -> None:
    made = readings(tmp_path)
    check(spark, row_sums(made, length=5, slide=slide), row_windows(made, 5, slide), tmp_path)


def test_joined_pairs_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = readings(tmp_path, 800)
    check(spark, joined_readings(made, length_ms=800), pairs(made, 800), tmp_path)


def test_windows_further_apart_than_long_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="Spark has no such windows"):
        grouped_sums(readings(tmp_path), length_ms=1000, slide_ms=2000)
