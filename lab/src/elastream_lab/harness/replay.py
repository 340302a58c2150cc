"""The replay source: a recording as a stream, each row available from the time it is due.

A Python streaming data source (``pyspark.sql.datasource``). The offset is a position: how many rows
of the recording have been read. Rows ``start .. end - 1`` are the same whoever asks for them and
when, so a batch can be run again after a fault, a query can go on in another application, and a
batch job can count the same rows again.

The clock is a small file next to the driver. Until it says that the replay has started, only as
many rows are there as it opens: a query can be started, warmed and filled with state before the
first row is due. A second application on the same checkpoint reads the same clock. From a moment on
the clock may go slower: the same rows then come at a lower rate.

A row's response time is the time its batch finished less the time it was due; ``due`` says the
latter, at the recording's own pace.

Rows are read next to the driver, in Arrow's form, and handed to the executors as blocks (Spark's
*simple* stream reader). A reader on the executors would need a Python process on each, started by
the first batch that sends a task to a new executor; that batch would take seconds longer, and the
stall would be the source's, not the migration's.

Options: ``path`` of the recording; ``clock``, its file; ``rows_a_batch``, where a batch shall take
no more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from elastream.atomic_io import write_json
from elastream_lab.harness.recording import DUE_MS, Recording

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


FORMAT = "elastream-replay"
POSITION = "position"
"""Name of the row number, as a column and in the offset."""


@dataclass(frozen=True, slots=True)
class ReplayClock:
    """When a replay starts, in a file that outlives the application."""

    path: Path

    def open(self, rows: int) -> None:
        """Make the first ``rows`` rows available at once, whatever time they are due."""
        self._write(replace(self._read(), open=rows))

    def start(self, start_ms: int) -> None:
        """Start the replay at a time in milliseconds since the epoch."""
        self._write(replace(self._read(), start_ms=start_ms))

    def slow_down(self, pace: float, from_ms: int) -> None:
        """Let rows come at ``pace`` times their rate from a moment on; once in a replay."""
        self._write(replace(self._read(), slow_ms=from_ms, pace=pace))

    @property
    def start_ms(self) -> int | None:
        """When the replay starts or started; ``None`` where that is not known yet."""
        return self._read().start_ms

    def rows_available(self, recording: Recording, now_ms: float) -> int:
        """Return how many rows of the recording are there."""
        report = self._read()
        if report.start_ms is None:
            return min(report.open, recording.rows)
        elapsed_ms, slow_ms = now_ms - report.start_ms, report.slow_after_ms
        if elapsed_ms > slow_ms:
            elapsed_ms = slow_ms + (elapsed_ms - slow_ms) * report.pace
        return min(max(report.open, recording.rows_due(elapsed_ms)), recording.rows)

    def due_ms(self, recording: Recording) -> NDArray[np.int64]:
        """Return when each row is due by this clock, in milliseconds after the replay starts."""
        import numpy as np

        report, due = self._read(), recording.due_ms
        slow_ms = report.slow_after_ms
        late = due > slow_ms
        if not late.any():
            return due
        return np.where(late, np.rint(slow_ms + (due - slow_ms) / report.pace), due).astype(
            np.int64
        )

    def _read(self) -> _ClockFile:
        try:
            return _ClockFile(**json.loads(self.path.read_text()))
        except FileNotFoundError:
            return _ClockFile()

    def _write(self, report: _ClockFile) -> None:
        write_json(self.path, asdict(report))


@dataclass(frozen=True, slots=True)
class _ClockFile:
    """What the file of a clock shows."""

    open: int = 0
    start_ms: int | None = None
    slow_ms: int | None = None
    pace: float = 1.0

    @property
    def slow_after_ms(self) -> float:
        """How long after the start the clock begins to go slower."""
        if self.start_ms is None or self.slow_ms is None:
            return float("inf")
        return self.slow_ms - self.start_ms


def replayed(
    spark: SparkSession,
    recording: Recording,
    clock: ReplayClock,
    *,
    rows_a_batch: int | None = None,
) -> DataFrame:
    """Return the recording as a stream."""
    spark.dataSource.register(ReplaySource)
    reader = spark.readStream.format(FORMAT).option("path", str(recording.path))
    reader = reader.option("clock", str(clock.path))
    if rows_a_batch is not None:
        reader = reader.option("rows_a_batch", str(rows_a_batch))
    return reader.load()


def replayed_batch(spark: SparkSession, recording: Recording, *, until: int) -> DataFrame:
    """Return the first ``until`` rows of the recording, all at once, past the source."""
    import pyarrow as pa

    rows = pa.Table.from_batches(_rows(recording, 0, until, None), _arrow(recording))
    return spark.createDataFrame(rows)


def replay_backlog(
    recording: Recording, clock: ReplayClock
) -> Callable[[Mapping[str, Any]], int | None]:
    """Return a function that shows from a progress report how many rows were left unread.

    That is when the batch began: rows that become due meanwhile are the next batch's.
    """

    def backlog(progress: Mapping[str, Any]) -> int | None:
        end = progress["sources"][0].get("endOffset")
        if not isinstance(end, dict):
            return None
        began_ms = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
        return max(0, clock.rows_available(recording, began_ms) - int(end[POSITION]))

    return backlog


class ReplaySource(DataSource):
    """The format ``elastream-replay``."""

    @classmethod
    def name(cls) -> str:
        """Return the name to give to ``format``."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns: row number, time due, then those of the recording."""
        from pyspark.sql.pandas.types import from_arrow_schema

        recording = Recording(Path(self.options["path"]))
        return from_arrow_schema(_arrow(recording), prefer_timestamp_ntz=False)

    def simpleStreamReader(  # noqa: N802 - Spark's name
        self,
        schema: StructType,  # noqa: ARG002
    ) -> SimpleDataSourceStreamReader:
        """Return the reader of a stream."""
        options = self.options
        most = options.get("rows_a_batch")
        return _StreamReader(
            Recording(Path(options["path"])),
            ReplayClock(Path(options["clock"])),
            None if most is None else int(most),
        )


class _StreamReader(SimpleDataSourceStreamReader):
    def __init__(self, recording: Recording, clock: ReplayClock, rows_a_batch: int | None) -> None:
        self._recording = recording
        self._clock = clock
        self._rows_a_batch = rows_a_batch

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {POSITION: 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        end = self._clock.rows_available(self._recording, time.time() * 1000)
        if self._rows_a_batch is not None:
            end = min(end, start[POSITION] + self._rows_a_batch)
        reached = {POSITION: max(end, start[POSITION])}
        return self.readBetweenOffsets(start, reached), reached

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[Any]:
        rows = _rows(self._recording, start[POSITION], end[POSITION], self._clock.start_ms)
        return iter(list(rows))  # Spark copies the iterator, and a generator cannot be copied


def _rows(recording: Recording, start: int, end: int, start_ms: int | None) -> Iterator[Any]:
    """Yield the rows ``start .. end - 1`` as record batches of the source's schema."""
    import numpy as np
    import pyarrow as pa

    schema = _arrow(recording)
    for rows in recording.slices(start, end):
        due_us = (rows.column(DUE_MS).to_numpy() + (start_ms or 0)) * 1000
        unknown = None if start_ms is not None else np.full(rows.num_rows, True)
        columns = [
            pa.array(np.arange(start, start + rows.num_rows)),
            pa.array(due_us, mask=unknown).cast(pa.timestamp("us", tz="UTC")),
            *(rows.column(name) for name in schema.names[2:]),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        start += rows.num_rows


def _arrow(recording: Recording) -> Any:
    """Return the schema in Arrow's form."""
    import pyarrow as pa

    due = pa.timestamp("us", tz="UTC")
    return pa.schema([(POSITION, pa.int64()), ("due", due), *recording.columns])
