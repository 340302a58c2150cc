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

from tests.handover.spark.expected import Expected, Result

from elastream.atomic_io import write_text
from elastream.handover.events import Timing
from elastream.handover.ledger import Note, RecordFile
from elastream.handover.model import QueryShape
from elastream.handover.session import hand_over, take_over
from elastream.handover.spark.origin_stream import OriginStream
from elastream.handover.spark.sinks import SinkOf
from elastream.handover.spark.target_stream import TargetStream
from elastream.handover.spark.windowed import WindowedQuery
from elastream.handover.target import TargetMachine
from elastream.handover.transport import Address, OriginServer, TargetLink
from elastream.model.errors import ElastreamError
from elastream_lab.applications.readings.json_lines import json_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOKEN = "a token that is long enough"
PATIENCE_S = 600.0
TIMING = Timing(repeat_ms=500, patience_ms=120_000)
START_MS = 1_750_000_000_000
ALL_MS = 3_600_000
"""When so much time has passed, every reading is due."""


_QUIET_POLLS = 10
"""A query that has planned no batch for this many looks has no rows."""


class Pace:
    """The time of the streams, which goes as fast as the queries can follow."""

    def __init__(self, folder: Path, step_ms: int = 300) -> None:
        self.path, self.now_ms = folder / "clock", START_MS
        self._step_ms = step_ms
        self._polls, self._committed = 0, dict[Path, int]()
        self.go(7 * step_ms)

    def follow(self, *checkpoints: Path) -> None:
        """Go on when each query has committed a batch since, or has had no rows for a while."""
        self._polls += 1
        progress = [_progress(checkpoint) for checkpoint in checkpoints]
        if all(
            committed > self._committed.get(checkpoint, 0)
            or (self._polls >= _QUIET_POLLS and committed == planned)
            for checkpoint, (planned, committed) in zip(checkpoints, progress, strict=True)
        ):
            self._polls = 0
            self._committed = {
                checkpoint: committed
                for checkpoint, (_, committed) in zip(checkpoints, progress, strict=True)
            }
            self.go(self._step_ms)

    def go(self, by_ms: int) -> None:
        self.now_ms += by_ms
        write_text(self.path, str(self.now_ms))


def _progress(checkpoint: Path) -> tuple[int, int]:
    """How many batches are planned, and how many of them committed."""
    planned, committed = (
        len(list((checkpoint / name).glob("[0-9]*"))) for name in ("offsets", "commits")
    )
    return planned, committed


def written(folder: Path) -> Counter[Result]:
    """What a sink has put there: a file a batch, or a folder that executors wrote."""
    files = [*folder.glob("[0-9]*.jsonl"), *folder.glob("side=*/checkpoint=*/batch=*/part-*.json")]
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return Counter(tuple(line[name] for name in sorted(line)) for line in lines)


class Handover:
    def __init__(
        self,
        spark: SparkSession,
        query: WindowedQuery,
        folder: Path,
        step_ms: int = 300,
        *,
        since_ms: int | None = None,
        sink: Callable[[Path], SinkOf] = json_lines,
    ) -> None:
        self.folder, self.notes, self.pace = folder, list[Note](), Pace(folder, step_ms)
        self.origin = OriginStream(query, sink(folder / "origin-out"), folder / "origin")
        self.target = TargetStream(
            query,
            sink(folder / "target-out"),
            folder / "target",
            spark,
            since_ms=since_ms,
            trigger_s=0.2,
        )
        self.server = OriginServer(Address(), TOKEN)
        self.stop, self.joined = threading.Event(), False
        self._query, self._spark, self._threads = query, spark, list[threading.Thread]()
        self._faults: list[ElastreamError] = []

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
        self.joined = True
        self._run(lambda: self.taken_over(self._query.shape, TOKEN, "target.json"))

    def taken_over(self, shape: QueryShape, token: str, record: str) -> TargetMachine:
        link = TargetLink(self.server.address, token)
        try:
            return take_over(
                self.target, shape, link, RecordFile(self.folder / record),
                log=self.notes.append, stop=self.stop, timing=TIMING,
            )  # fmt: skip
        finally:
            link.close()

    def _run(self, act: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                act()
            except ElastreamError as error:
                self._faults.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        self._threads.append(thread)

    def put_out(self) -> Counter[Result]:
        return written(self.folder / "origin-out") + written(self.folder / "target-out")

    def await_until(self, holds: Callable[[], bool], *, paced: bool = True) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, (self.notes, len(self.put_out()))
            for fault in self._faults:
                raise fault
            for stream in (self.origin.streaming, self.target.streaming):
                assert stream is None or stream.isActive, stream.exception()
            if paced:
                self._go_on()
            time.sleep(0.1)

    def _go_on(self) -> None:
        """Let time go on, but not so fast that the streams end before the target reads them.

        Until the target knows from where on it sees every row, the streams keep its pace too; from
        then on its batches wait for the handover.
        """
        followed = [self.folder / "origin" / "checkpoint"]
        if self.joined and self.target.first_seen() is None:
            reads = "checkpoint" if self._query.rows is None else "probe"
            followed.append(self.folder / "target" / reads)
            if not followed[-1].exists():
                return
        self.pace.follow(*followed)

    def close(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(60)
        self.origin.stop()
        self.target.stop()
        self.server.close()


@contextmanager
def handover(
    spark: SparkSession,
    query: WindowedQuery,
    folder: Path,
    step_ms: int = 300,
    *,
    since_ms: int | None = None,
    sink: Callable[[Path], SinkOf] = json_lines,
) -> Iterator[Handover]:
    run = Handover(spark, query, folder, step_ms, since_ms=since_ms, sink=sink)
    try:
        yield run
    finally:
        run.close()


def check_whole(run: Handover, expected: Expected) -> None:
    """Hand over; both sides together put out what is expected, each result once."""
    if not run.joined:
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
