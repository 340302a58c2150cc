"""A recording: rows, each with the time it is due, in an Arrow file that a replay reads in place.

Made rows and rows from a real file become the same thing before a query starts, so the replay
source is one and small: row k of the file is offset k of the stream. The source maps the file into
memory and hands slices of it on without a copy; a batch job can read the same rows again and count
them again. Posts have one column, ``text``; any other columns will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


DUE_MS = "due_ms"
"""Name of the column with the time a row is due."""

_ROWS_A_CHUNK = 4096


@dataclass(frozen=True)
class Recording:
    """Rows in the order they are due."""

    path: Path

    @cached_property
    def due_ms(self) -> NDArray[np.int64]:
        """When each row is due, in milliseconds after the replay starts; never decreasing."""
        due: NDArray[np.int64] = self._file().read_all().column(DUE_MS).to_numpy()
        return due

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.due_ms)

    @property
    def columns(self) -> Any:
        """The schema, in Arrow's form, of all columns but the time a row is due."""
        import pyarrow as pa

        return pa.schema([field for field in self._file().schema if field.name != DUE_MS])

    @property
    def replay_s(self) -> float:
        """When the last row is due."""
        return float(self.due_ms[-1]) / 1000 if self.rows else 0.0

    def rows_due(self, elapsed_ms: float) -> int:
        """Return how many rows are due so long after the replay started."""
        return int(np.searchsorted(self.due_ms, elapsed_ms, side="right"))

    def slices(self, start: int, end: int) -> Iterator[Any]:
        """Yield the rows ``start .. end - 1`` as record batches with the columns of the file."""
        file = self._file()
        for number in range(start // _ROWS_A_CHUNK, file.num_record_batches):
            first = number * _ROWS_A_CHUNK
            if first >= end:
                return
            chunk = file.get_batch(number)
            lb, ub = max(start - first, 0), min(end - first, chunk.num_rows)
            if lb < ub:
                yield chunk.slice(lb, ub - lb)

    def texts_in_turn(self, rows: int) -> Any:
        """Return this many texts, in Arrow's form: from the first on, and again where they end."""
        texts = self._file().read_all().column("text")
        return texts.take(np.arange(rows) % len(texts))

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """About how many words each row has, for sizing."""
        import pyarrow.compute as pc

        texts = self._file().read_all().column("text")
        counts: NDArray[np.int64] = pc.count_substring_regex(texts, _WORD).to_numpy()
        return counts

    def words_a_second(self, window_s: float = 5.0) -> float:
        """Return the most words a second that are due within any window."""
        bounds = np.arange(0.0, self.replay_s * 1000 + window_s * 1000, window_s * 1000)
        marks = np.searchsorted(self.due_ms, bounds)
        most = max((int(self.words[lb:ub].sum()) for lb, ub in pairwise(marks)), default=0)
        return most / window_s

    def _file(self) -> Any:
        import pyarrow as pa

        return pa.ipc.open_file(pa.memory_map(str(self.path)))


_WORD = r"[\p{L}\p{N}_]+"


def write_recording(path: Path, due_ms: NDArray[np.int64], texts: Sequence[str] | Any) -> Recording:
    """Write the posts to ``path`` and return the recording; ``due_ms`` must not decrease."""
    import pyarrow as pa

    text = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.array(texts, pa.string())
    return write_columns(path, due_ms, {"text": text})


def write_columns(path: Path, due_ms: NDArray[np.int64], columns: Mapping[str, Any]) -> Recording:
    """Write rows with any columns to ``path``; ``due_ms`` must not decrease."""
    import pyarrow as pa

    table = pa.table({DUE_MS: pa.array(due_ms, pa.int64()), **columns}).combine_chunks()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_ROWS_A_CHUNK)
    return Recording(path)
