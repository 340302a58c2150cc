"""The query that is measured, and the rows that it reads while they are due."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from elastream.demo.timed_lines import TimedLines, TimedRows, read, write
from elastream.model.errors import SparkError
from elastream.spark.observe.endings import ending
from elastream_lab.benchmarks.realtime.figures import Result
from elastream_lab.benchmarks.realtime.settings import PARTITIONS, RealtimeSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_WORDS: Final = 200
_BALLAST: Final = "ballast"
_KEY_BYTES: Final = 1000
"""The length of the keys that only make the state large."""
_AHEAD_S: Final = 1.0
"""Lines are written so long before they are due."""
_STEP_S: Final = 0.25
_POLL_S: Final = 0.2
_PATIENCE_S: Final = 300.0
"""How long anything that is waited for may take."""


class RealtimeStream:
    """A count by word in Real-time Mode, fed at a rate that may change."""

    def __init__(self, spark: SparkSession, settings: RealtimeSettings, folder: Path) -> None:
        self.rows_a_second = settings.rows_a_second
        self.query: StreamingQuery
        """Its newest run."""
        self.results: list[Result] = []
        """Those of the rows that were due, in the order in which they came; without the ballast."""
        self._spark = spark
        self._settings = settings
        self._folder = folder
        self._lines = TimedLines(folder / "in", partitions=PARTITIONS // 2)
        self._rows = TimedRows(folder / "out")
        self._added: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._feeder = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def __enter__(self) -> Self:
        dice = random.Random(1)
        for number in range(round(self._settings.partition_mb * 1e6 * PARTITIONS / _KEY_BYTES)):
            self._add(f"{_BALLAST}{number}-{dice.randbytes(_KEY_BYTES // 2).hex()}", time.time())
        self.start()
        self._feeder.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_feeding()
        self._lines.close()
        self.query.stop()

    def start(self) -> StreamingQuery:
        """Start the query on its checkpoint."""
        from pyspark.sql import functions as f

        groups = read(self._spark, self._folder / "in").groupBy("value")
        counts = groups.agg(f.count("*").alias("n"), f.max("timestamp").alias("due"))
        writer = write(counts, self._folder / "out").queryName("counts").outputMode("update")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        trigger = f"{self._settings.trigger_s:g} seconds"
        self.query = writer.trigger(realTime=trigger).start()  # type: ignore[call-overload]
        return self.query

    def look(self) -> list[Result]:
        """Return all results so far."""
        for row in self._rows.more():
            word, count, due_ms = row.values
            self._counted[word] = max(self._counted[word], int(count))
            if not word.startswith(_BALLAST):
                self.results.append(Result(row.batch, float(due_ms), float(row.at_ms)))
        return self.results

    def until(self, reached: Callable[[], bool], what: str, *, lost: bool = False) -> None:
        """Wait; ``lost``: the query may be down meanwhile."""
        deadline = time.monotonic() + _PATIENCE_S
        while not reached():
            if not lost and not self.query.isActive:
                raise SparkError(f"the query has ended: {ending(self.query.exception())}")
            if self._failure is not None:
                raise SparkError(f"no rows come any more: {self._failure}")
            if time.monotonic() > deadline:
                raise SparkError(f"{what}: not within {_PATIENCE_S:g} s")
            time.sleep(_POLL_S)

    def pass_batches(self, number: int) -> None:
        """Wait until so many batches have ended."""
        wanted = self._last_batch() + number
        self.until(lambda: self._last_batch() >= wanted, f"batch {wanted} ends")

    def is_exact(self) -> bool:
        """Return whether every row was counted once, after letting no more come."""
        self._end_feeding()

        def all_counted() -> bool:
            self.look()
            return self._counted == self._added

        try:
            self.until(all_counted, "all rows are counted")
        except SparkError:
            return False
        return True

    def _last_batch(self) -> int:
        progress = self.query.lastProgress
        return -1 if progress is None else int(progress.batchId)

    def _add(self, word: str, due_s: float) -> None:
        self._lines.add(word, 1000 * due_s)
        self._added[word] += 1

    def _feed(self) -> None:
        due_s = time.time()
        try:
            while not self._ended.wait(_STEP_S):
                while due_s < time.time() + _AHEAD_S:
                    self._add(f"word{self._lines.lines % _WORDS}", due_s)
                    due_s += 1 / self.rows_a_second
        except BaseException as error:
            self._failure = error

    def _end_feeding(self) -> None:
        self._ended.set()
        if self._feeder.ident is not None:
            self._feeder.join()
