"""A handover between two queries of one session, each with a checkpoint of its own."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.handover.expected import Expected, Result

from elastream.control.handover.events import Timing
from elastream.control.handover.ledger import Note, RecordFile
from elastream.control.handover.session import hand_over, take_over
from elastream.control.handover.target import Target
from elastream.control.handover.transport import Address, OriginServer, TargetLink
from elastream.model.handover import QueryShape
from elastream.spark.handover.origin_stream import OriginStream
from elastream.spark.handover.target_stream import TargetStream
from elastream.spark.handover.windowed import WindowedQuery, json_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOKEN = "a token that is long enough"
PATIENCE_S = 240.0
TIMING = Timing(repeat_ms=500, patience_ms=120_000)
START_MS = 1_750_000_000_000
ALL_MS = 3_600_000
"""When so much time has passed, every reading is due."""


class Pace:
    """The time of the streams, which goes as fast as the queries can follow."""

    def __init__(self, folder: Path, step_ms: int = 300) -> None:
        self.path, self.now_ms = folder / "clock", START_MS
        self._step_ms = step_ms
        self._batches = self._polls = 0
        self.go(7 * step_ms)

    def follow(self, checkpoint: Path) -> None:
        """Go on when a batch has been committed, or when none is under way: there are no rows."""
        planned, batches = (
            len(list((checkpoint / name).glob("[0-9]*"))) for name in ("offsets", "commits")
        )
        self._polls = 0 if batches != self._batches else self._polls + 1
        self._batches = batches
        if self._polls == 0 or (self._polls % 10 == 0 and planned == batches):
            self.go(self._step_ms)

    def go(self, by_ms: int) -> None:
        self.now_ms += by_ms
        temporary = self.path.with_name("clock.new")
        temporary.write_text(str(self.now_ms))
        temporary.replace(self.path)


def written(folder: Path) -> Counter[Result]:
    lines = [
        json.loads(line)
        for file in folder.glob("[0-9]*.jsonl")
        for line in file.read_text().splitlines()
    ]
    return Counter(tuple(line[name] for name in sorted(line)) for line in lines)


class Handover:
    def __init__(
        self, spark: SparkSession, query: WindowedQuery, folder: Path, step_ms: int = 300
    ) -> None:
        self.folder, self.notes, self.pace = folder, list[Note](), Pace(folder, step_ms)
        self.origin = OriginStream(query, json_lines(folder / "origin-out"), folder / "origin")
        self.target = TargetStream(
            query, json_lines(folder / "target-out"), folder / "target", spark, trigger_s=0.2
        )
        self.server = OriginServer(Address(), TOKEN)
        self.stop = threading.Event()
        self._query, self._spark, self._threads = query, spark, list[threading.Thread]()

    def serve(self) -> None:
        self.origin.start(self._spark, trigger_s=0.2)
        self._run(
            lambda: hand_over(
                self.origin, self._query.shape, self.server,
                RecordFile(self.folder / "origin.json"),
                log=self.notes.append, stop=self.stop, timing=TIMING,
            )
        )  # fmt: skip

    def join(self) -> None:
        self._run(lambda: self.taken_over(self._query.shape, TOKEN, "target.json"))

    def taken_over(self, shape: QueryShape, token: str, record: str) -> Target:
        link = TargetLink(self.server.address, token)
        try:
            return take_over(
                self.target, shape, link, RecordFile(self.folder / record),
                log=self.notes.append, stop=self.stop, timing=TIMING,
            )  # fmt: skip
        finally:
            link.close()

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
            self.pace.follow(self.folder / "origin" / "checkpoint")
            time.sleep(0.1)

    def close(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(60)
        self.origin.stop()
        self.target.stop()
        self.server.close()


@contextmanager
def handover(
    spark: SparkSession, query: WindowedQuery, folder: Path, step_ms: int = 300
) -> Iterator[Handover]:
    run = Handover(spark, query, folder, step_ms)
    try:
        yield run
    finally:
        run.close()


def check_whole(run: Handover, expected: Expected) -> None:
    """Hand over; both sides together put out what is expected, each result once."""
    run.join()
    run.await_until(lambda: {"own", "finish"} <= {note.kind for note in run.notes})
    run.pace.go(ALL_MS)
    run.await_until(lambda: run.put_out() >= expected.sure)
    assert run.put_out() <= expected.possible
    boundary = next(note.boundary for note in run.notes if note.kind == "commit")
    assert boundary is not None
    own, taken = (
        {result[0] for result in written(run.folder / name)}
        for name in ("origin-out", "target-out")
    )
    assert own
    assert taken
    assert max(own) < boundary.activation <= min(taken)
