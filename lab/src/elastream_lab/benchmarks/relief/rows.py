"""Rows whose state partitions are known, one file a batch, so that all batches are alike.

Spark hashes a key to its partition. Here keys are chosen by the partition that they hash to: every
batch brings each partition of each operator the same number of rows. What then differs from batch
to batch is the machine, not the stream.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


START_S: Final = 1_000_000
"""The event time of the first batch, in seconds since the epoch; each is a second later."""
SCHEMA: Final = "id long, key long, second long"
_IDS_A_ROW: Final = 1.5
"""Ids are tried for rows: some partitions get fewer than others."""
_KEYS_TRIED: Final = 240
_KEYS_A_PARTITION: Final = 3
_FILE_TIME_S: Final = 1_700_000_000
"""When the first file claims to have been written: sources read files in that order."""

Row = tuple[int, int, int]
"""An id, a key, and the second of its batch."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How many rows of a batch each partition gets."""

    ids: tuple[int, ...]
    """By partition of what is keyed by ``id``."""
    keys: tuple[int, ...]
    """By partition of what is keyed by ``key``; as many in all."""
    by_second: bool = False
    """Whether ``key`` is hashed together with the batch's event time."""

    @property
    def rows(self) -> int:
        """Rows of a batch."""
        return sum(self.ids)


def make_batches(
    layout: Layout, ids: Mapping[int, Sequence[int]], keys: Sequence[Mapping[int, Sequence[int]]]
) -> Iterator[list[Row]]:
    """Yield the rows of each batch; no id comes twice.

    ``ids`` and ``keys`` are those that hash to each partition, keys of each batch.
    """
    unused = {partition: iter(values) for partition, values in ids.items()}
    id_places, key_places = _dealt(layout.ids), _dealt(layout.keys)
    for batch, keys_now in enumerate(keys):
        cycles = {place: itertools.cycle(values) for place, values in keys_now.items()}
        yield [
            (next(unused[one]), next(cycles[other]), START_S + batch)
            for one, other in zip(id_places, key_places, strict=True)
        ]


def write_batches(batches: Iterator[list[Row]], folder: Path) -> list[list[Row]]:
    """Write each batch as a file, and return them all."""
    folder.mkdir(parents=True)
    written = []
    for number, rows in enumerate(batches):
        path = folder / f"{number:05}.json"
        lines = (json.dumps({"id": i, "key": k, "second": s}) for i, k, s in rows)
        path.write_text("\n".join(lines), "utf-8")
        os.utime(path, (_FILE_TIME_S + number, _FILE_TIME_S + number))
        written.append(rows)
    return written


def hashed_ids(spark: SparkSession, layout: Layout, batches: int) -> dict[int, list[int]]:
    """Return enough ids for all batches, by the partition that Spark hashes them to."""
    from pyspark.sql import functions as f

    partitions = len(layout.ids)
    tried = round(_IDS_A_ROW * max(layout.ids) * partitions * batches) + 100 * partitions
    found = spark.range(tried).select("id", partition_of(partitions, f.col("id")))
    by_place: dict[int, list[int]] = {place: [] for place in range(partitions)}
    for number, place in found.collect():
        by_place[place].append(number)
    return by_place


def hashed_keys(spark: SparkSession, layout: Layout, batches: int) -> list[dict[int, list[int]]]:
    """Return a few keys of each batch, by the partition that Spark hashes them to."""
    from pyspark.sql import functions as f

    partitions, different = len(layout.keys), batches if layout.by_second else 1
    batch = f.floor(f.col("id") / _KEYS_TRIED)
    key, at = f.col("id") % _KEYS_TRIED, f.timestamp_seconds(batch + START_S)
    columns = (at, key) if layout.by_second else (key,)
    place = partition_of(partitions, *columns)
    found: list[dict[int, list[int]]] = [{} for _ in range(different)]
    for number, one, its_place in (
        spark.range(different * _KEYS_TRIED).select(batch, key, place).collect()
    ):
        some = found[number].setdefault(its_place, [])
        if len(some) < _KEYS_A_PARTITION:
            some.append(one)
    return found if layout.by_second else found * batches


def partition_of(partitions: int, *columns: Column) -> Column:
    """Return the state partition of a key."""
    from pyspark.sql import functions as f

    return f.pmod(f.hash(*columns), f.lit(partitions))


def _dealt(counts: Sequence[int]) -> list[int]:
    """Return the partition of each row, dealt in turns, those that have had all left out."""
    left, places = list(counts), []
    while any(left):
        for place, number in enumerate(left):
            if number:
                places.append(place)
                left[place] -= 1
    return places
