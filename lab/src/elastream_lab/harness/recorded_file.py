"""A real file as a recording: CSV, JSON lines, Parquet or a log, replayed faster than it happened.

Everything that can be wrong with the file is found here, before any process starts, and reported in
one line that names the field: a path that cannot be read, a format that is not known, a column
that is not there, a time that is none. Rows are sorted by time, and the time between the first and
the last row is compressed to the wanted length; the shape of the rate stays.

Times may be timestamps, dates, texts in ISO 8601, or numbers since 1970 in seconds, milliseconds,
microseconds or nanoseconds: the unit is known from the magnitude of the first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from elastream.model.checks import abbreviate, positive
from elastream.model.errors import ProblemError
from elastream.model.words import join_names
from elastream_lab.harness.delimited_text import read_lines
from elastream_lab.harness.recording import Recording, write_recording
from elastream_lab.harness.time_units import unit_us

_FORMATS: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".log": "log",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tsv": "tsv",
    ".txt": "text",
}
_COMPRESSIONS: Final = frozenset({".gz", ".bz2", ".zst", ".lz4"})
_LATEST_US: Final = 1e18
_MOST_COLUMNS: Final = 20
"""That a message names."""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """Which file, which columns, and how long the replay takes."""

    input: Path
    time: str
    """Column that says when a row happened."""
    text: str
    """Column whose words are counted."""
    replay_s: float = 150.0
    """How long the replay takes, whatever time the file spans."""

    def __post_init__(self) -> None:
        positive("replay_s", self.replay_s)


def expect_columns(input: Path | None, columns: Mapping[str, str | None]) -> None:  # noqa: A002 - the option's word
    """Refuse columns without a file, a file that is not there, and one whose columns are unnamed.

    ``columns`` has them by the names of their options.
    """
    if input is not None:
        try:
            input.stat()
        except OSError as error:
            raise ProblemError("input", f"{input} cannot be read: {error.strerror}") from None
    for option, column in columns.items():
        if input is None and column is not None:
            raise ProblemError(option, "names a column of `input`, which is not given")
        if input is not None and column is None:
            raise ProblemError(option, f"which column of {input}? name it")


def record_file(source: RecordedFile, path: Path) -> Recording:
    """Read and check the file, and write it as a recording to ``path``."""
    columns = {"time": source.time, "text": source.text}
    table = read_columns(source.input, columns, texts=(source.text,))
    when_us = times_us(table.column(source.time), source.time)
    order = np.argsort(when_us, kind="stable")
    texts = _texts(table.column(source.text), source.text).take(order)
    return write_recording(path, due_ms(when_us[order], source.replay_s), texts)


def due_ms(sorted_us: Any, replay_s: float) -> Any:
    """Return when each row is due, in milliseconds, if all of them take ``replay_s``."""
    elapsed = (sorted_us - sorted_us[0]).astype(np.float64)
    span = elapsed[-1] or 1.0
    return np.floor(elapsed / span * replay_s * 1000).astype(np.int64)


def read_columns(path: Path, columns: Mapping[str, str], *, texts: Collection[str]) -> Any:
    """Read the file as an Arrow table that has rows, and the columns that the fields name.

    The columns ``texts`` hold text, whatever it looks like.
    """
    table = _read(path, texts)
    for field, name in columns.items():
        if name not in table.column_names:
            known = join_names(table.column_names, most=_MOST_COLUMNS)
            raise ProblemError(field, f"{path} has no column {abbreviate(name)}; it has {known}")
    if table.num_rows == 0:
        raise ProblemError("input", f"{path} has no rows")
    return table


def _read(path: Path, texts: Collection[str]) -> Any:
    import pyarrow as pa

    try:
        if path.is_dir():
            raise ProblemError("input", f"{path} is a folder, not a file")
        if path.stat().st_size == 0:
            raise ProblemError("input", f"{path} is empty")
        kind = _kind(path)
        with pa.input_stream(str(path), compression="detect") as stream:
            return _READERS[kind](stream, texts)
    except OSError as error:
        why = error.strerror or str(error).splitlines()[0]
        raise ProblemError("input", f"{path} cannot be read: {why}") from None
    except (pa.ArrowException, UnicodeDecodeError) as error:
        why = str(error).splitlines()[0]
        raise ProblemError("input", f"{path} is not {_NAMES[kind]}: {why}") from None


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    kind = _FORMATS.get(suffixes[-1]) if suffixes else None
    if kind is None:
        known = ", ".join(_FORMATS)
        raise ProblemError("input", f"{path} has no known format; name it {known}, maybe + .gz")
    return kind


def _read_csv(stream: Any, texts: Collection[str]) -> Any:
    from pyarrow import csv, string

    options = csv.ConvertOptions(
        column_types=dict.fromkeys(texts, string()), strings_can_be_null=True
    )
    return csv.read_csv(
        stream, convert_options=options, parse_options=csv.ParseOptions(newlines_in_values=True)
    )


def _read_json(stream: Any, _texts: Collection[str]) -> Any:
    from pyarrow import json

    return json.read_json(stream)


def _read_parquet(stream: Any, _texts: Collection[str]) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    return parquet.read_table(pa.BufferReader(stream.read()))


def _read_tabs(stream: Any, texts: Collection[str]) -> Any:
    return read_lines(stream.read().decode(), "\t", texts)


def _read_blanks(stream: Any, texts: Collection[str]) -> Any:
    return read_lines(stream.read().decode(), None, texts)


_READERS: Final = {
    "csv": _read_csv,
    "json": _read_json,
    "log": _read_tabs,
    "parquet": _read_parquet,
    "text": _read_blanks,
    "tsv": _read_tabs,
}
_NAMES: Final = {
    "csv": "CSV",
    "json": "JSON lines",
    "log": "a log with tabs",
    "parquet": "Parquet",
    "text": "text in columns",
    "tsv": "tab-separated",
}


def times_us(column: Any, name: str) -> Any:
    """Return the times of a column in microseconds since 1970."""
    import pyarrow as pa

    if column.null_count:
        row = next(row for row, value in enumerate(column) if not value.is_valid)
        raise ProblemError("time", f"row {row + 1} has no time in column {abbreviate(name)}")
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return column.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_numpy()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers_us(column.to_numpy().astype(np.float64), name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts_us(column.to_pylist(), name)
    raise ProblemError("time", f"column {abbreviate(name)} holds {kind}, not times")


def _numbers_us(numbers: Any, name: str) -> Any:
    times = numbers * unit_us(numbers[0])
    if not (np.abs(times) < _LATEST_US).all():
        raise ProblemError("time", f"column {abbreviate(name)} holds a number that is not a time")
    return times.astype(np.int64)


def _texts_us(texts: list[str], name: str) -> Any:
    import pandas as pd

    times = pd.to_datetime(pd.Series(texts), format="ISO8601", utc=True, errors="coerce")
    wrong = times.isna()
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        why = f"row {row + 1} of column {abbreviate(name)} is {abbreviate(texts[row])}, not a time"
        raise ProblemError("time", f"{why} as in 2020-03-01T12:00:00Z")
    return times.dt.as_unit("us").astype("int64").to_numpy()


def _texts(column: Any, name: str) -> Any:
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise ProblemError("text", f"column {abbreviate(name)} holds {column.type}, not texts")
    return column.cast(pa.string()).fill_null("")
