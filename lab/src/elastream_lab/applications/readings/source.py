"""A seeded source of located readings, which any number of applications read independently.

The streams S and T of paper 002 (section 4): readings with a place and a measure. Reading k of a
stream is the same for everybody, and is there from the time it is due, by the wall clock: a reader
that connects now starts with the next one, as one does with a live source. A batch job reads all of
them at once, past the clock.

Options: ``seed``, ``stream`` (a number), ``rows``, ``gap_ms`` (mean time between readings; equal
times and gaps occur), ``start_ms`` (when the first is due, in ms since the epoch), ``places``,
``late_ms`` (a reading may be due so much after the time it carries; 0 for readings in order),
``clock`` (a file that shows the time, for a stream that goes at another's pace), ``connect``
("first", "now", or a time in ms from which on all readings are wanted).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from elastream.handover.model import Start
from elastream.model.checks import count

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


FORMAT = "elastream-readings"
_SCHEMA = "position bigint, at timestamp, place string, measure bigint"

Reading = tuple[int, int, str, int]
"""Position, time in milliseconds since the epoch, place, measure."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Which readings; checked when made."""

    start_ms: int
    rows: int = 2000
    gap_ms: int = 40
    seed: int = 1
    stream: int = 0
    places: int = 20
    late_ms: int = 0
    """A reading may be due so much later than its time."""
    clock: str = ""
    """A file that shows the time in ms since the epoch; empty for the machine's clock."""

    def __post_init__(self) -> None:
        for name in ("start_ms", "seed", "stream", "late_ms"):
            count(name, getattr(self, name))
        for name in ("rows", "gap_ms", "places"):
            count(name, getattr(self, name), least=1)

    def all(self) -> list[Reading]:
        """Return every reading."""
        _, times, places, measures = _made(self)
        return [
            (k, int(times[k]), f"location{places[k]:02d}", int(measures[k]))
            for k in range(self.rows)
        ]

    def due(self) -> int:
        """Return how many readings are there now."""
        now_ms = int(Path(self.clock).read_text()) if self.clock else int(time.time() * 1000)
        return self.due_by(now_ms)

    def due_by(self, at_ms: int) -> int:
        """Return how many readings are there at a time; none is due before the time it carries."""
        return int(np.searchsorted(_made(self)[0], at_ms, side="right"))


def readings_stream(
    spark: SparkSession, readings: Readings, start: Start | None = None
) -> DataFrame:
    """Return the readings as a stream, from the first one or from a start on."""
    spark.dataSource.register(ReadingsSource)
    start = start or Start.first()
    connect = str(start.at_ms) if start.kind == "time" else start.kind
    options = {name: str(value) for name, value in asdict(readings).items()}
    return spark.readStream.format(FORMAT).options(connect=connect, **options).load()


class ReadingsSource(DataSource):
    """The format ``elastream-readings``."""

    @classmethod
    def name(cls) -> str:
        """Return the name to give to ``format``."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns: row number, time, place, measure."""
        return _SCHEMA

    def simpleStreamReader(  # noqa: N802 - Spark's name
        self,
        schema: StructType,  # noqa: ARG002
    ) -> SimpleDataSourceStreamReader:
        """Return the reader of a stream."""
        return _StreamReader(_readings(self.options), self.options.get("connect", "first"))


class _StreamReader(SimpleDataSourceStreamReader):
    def __init__(self, readings: Readings, connect: str) -> None:
        self._readings, self._connect = readings, connect

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        if self._connect == "first":
            return {"position": 0}
        if self._connect == "now":
            return {"position": self._readings.due()}
        return {"position": self._readings.due_by(int(self._connect) - 1)}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        end = {"position": max(start["position"], self._readings.due())}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[Any]:
        from datetime import UTC, datetime, timedelta

        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        rows = self._readings.all()[start["position"] : end["position"]]
        return iter([(k, epoch + timedelta(milliseconds=at), p, m) for k, at, p, m in rows])


def _readings(options: Mapping[str, str]) -> Readings:
    names = ("start_ms", "rows", "gap_ms", "seed", "stream", "places", "late_ms")
    numbers = {name: int(options[name]) for name in names}
    return Readings(**numbers, clock=options["clock"])


@lru_cache(maxsize=8)
def _made(readings: Readings) -> tuple[NDArray[np.int64], ...]:
    """Return due time, time, place and measure of each; bursts share a time, gaps are long."""
    random = np.random.default_rng((readings.seed, readings.stream))
    gaps = random.exponential(readings.gap_ms, readings.rows)
    gaps[random.random(readings.rows) < 0.1] = 0
    gaps[random.random(readings.rows) < 0.01] *= 20
    due = readings.start_ms + np.cumsum(gaps).astype(np.int64)
    places = random.integers(0, readings.places, readings.rows)
    measures = random.integers(0, 100, readings.rows)
    late = random.integers(0, readings.late_ms + 1, readings.rows)
    return due, np.maximum(due - late, 0), places, measures
