"""Packets, from a log or made, and the sub-streams that they are split into.

A packet has a time, a source, a destination and a size; so has an HTTP request, a DNS query or a
message between people. As in section 7.3.5 of paper 003 they are split by source, so that each
sub-stream has about the same number of sources, but not the same number of packets: which
sub-stream a source belongs to follows from a checksum of its name. Each sub-stream becomes a
recording of its own, all on the same clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream_lab.harness.recorded_file import due_ms, read_columns, times_us
from elastream_lab.harness.recording import Recording, write_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PacketLog:
    """Which file, and what its columns mean."""

    input: Path
    time: str
    source: str
    destination: str
    size: str | None = None
    """``None`` where sizes are not known; then they have no mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Packets:
    """Packets in the order of their times; the columns are Arrow arrays but for the times."""

    time_us: NDArray[np.int64]
    """Microseconds since 1970."""
    source: Any
    destination: Any
    size: Any

    def __len__(self) -> int:
        return len(self.time_us)

    def between(self, first: float, last: float) -> Packets:
        """Return the packets of a part of the whole span, which is from 0 to 1."""
        span = self.time_us[-1] - self.time_us[0]
        marks = self.time_us[0] + np.array([first, last]) * (span + 1)
        lb, ub = (int(mark) for mark in np.searchsorted(self.time_us, marks))
        return self.take(np.arange(lb, ub))

    def take(self, rows: NDArray[np.int64]) -> Packets:
        """Return some of the packets."""
        columns = (column.take(rows) for column in (self.source, self.destination, self.size))
        return Packets(self.time_us[rows], *columns)

    def split(self, substreams: int) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of the packets of each sub-stream."""
        encoded = self.source.dictionary_encode()
        belongs = [substream_of(name, substreams) for name in encoded.dictionary.to_pylist()]
        numbers = np.array(belongs, dtype=np.int64)[encoded.indices.to_numpy()]
        for substream in range(substreams):
            yield np.flatnonzero(numbers == substream)


def substream_of(source: str, substreams: int) -> int:
    """Return the sub-stream of a source."""
    return zlib.crc32(source.encode()) % substreams


def read_packets(log: PacketLog) -> Packets:
    """Read and check a log."""
    columns = {"time": log.time, "source": log.source, "destination": log.destination}
    if log.size is not None:
        columns["size"] = log.size
    table = read_columns(log.input, columns, texts=(log.source, log.destination))
    times = times_us(table.column(log.time), log.time)
    source = _names(table.column(log.source), "source", log.source)
    destination = _names(table.column(log.destination), "destination", log.destination)
    packets = Packets(times, source, destination, _sizes(table, log.size))
    return packets.take(np.argsort(times, kind="stable"))


def record_substreams(
    packets: Packets, folder: Path, *, substreams: int, replay_s: float
) -> tuple[Recording, ...]:
    """Write a recording of each sub-stream; together they take ``replay_s`` to replay."""
    if not len(packets):
        raise ProblemError("input", "has no packets")
    due = due_ms(packets.time_us, replay_s)
    return record_due(packets, due, folder, substreams=substreams)


def record_due(
    packets: Packets, due: NDArray[np.int64], folder: Path, *, substreams: int
) -> tuple[Recording, ...]:
    """Write a recording of each sub-stream; ``due`` says when each packet is, in milliseconds."""
    import pyarrow as pa

    made = []
    for number, rows in enumerate(packets.split(substreams)):
        if not len(rows):
            raise ProblemError(
                "substreams", f"{substreams} are too many: no source falls into number {number}"
            )
        part = packets.take(rows)
        columns = {
            "time": pa.array(part.time_us).cast(pa.timestamp("us", tz="UTC")),
            "source": part.source,
            "destination": part.destination,
            "size": part.size,
        }
        made.append(write_columns(folder / f"substream-{number}.arrow", due[rows], columns))
    return tuple(made)


def _names(column: Any, field: str, name: str) -> Any:
    import pyarrow as pa

    kind = column.type
    if not (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
    ):
        raise ProblemError(field, f"column {abbreviate(name)} holds {kind}, not names")
    return column.cast(pa.string()).fill_null("").combine_chunks()


def _sizes(table: Any, name: str | None) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if name is None:
        return pa.nulls(table.num_rows, pa.int64())
    column = table.column(name).combine_chunks()
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise ProblemError("size", f"column {abbreviate(name)} holds {column.type}, not numbers")
    return pc.round(column.cast(pa.float64())).cast(pa.int64())
