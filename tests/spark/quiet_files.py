"""A stream over files of a folder: it has rows when a test says so, and is idle otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.atomic_io import write_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 50


class QuietFiles:
    """Rows ``k`` from 0 to ``KEYS`` - 1, in turn, a file at a time."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._folder = folder
        self._files = 0
        self.rows = 0
        folder.mkdir(parents=True)
        self._spark = spark

    def counts(self) -> DataFrame:
        """The count of every key, as a stream."""
        return self._spark.readStream.schema("k long").json(str(self._folder)).groupBy("k").count()

    def feed(self, rows: int) -> None:
        """Put this many rows more into the folder."""
        lines = [json.dumps({"k": (self.rows + row) % KEYS}) for row in range(rows)]
        write_text(self._folder / f"{self._files}.json", "\n".join(lines) + "\n")
        self._files += 1
        self.rows += rows

    def expected(self) -> dict[int, int]:
        """The count of every key in all rows fed."""
        whole, rest = divmod(self.rows, KEYS)
        counts = {key: whole + (key < rest) for key in range(KEYS)}
        return {key: number for key, number in counts.items() if number}

    def found(self, checkpoint: Path) -> dict[int, int]:
        """The count of every key in the state of the last batch."""
        state = self._spark.read.format("statestore").load(str(checkpoint))
        rows = state.select("key.k", "value.count").collect()
        assert len({row[0] for row in rows}) == len(rows), "a key has two states"
        return {row[0]: row[1] for row in rows}
