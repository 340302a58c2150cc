"""Logs in lines of text: fields between tabs or blanks, the names in a header.

What tools write rather than what people do: tab-separated values whose lines may end in empty
fields, and the logs of Zeek, whose header is the line ``#fields`` among other lines with a ``#``
and whose unknown values are ``-``. A line with too few fields has unknown values at its end; what
is beyond the header is passed over. A column whose every value is a number holds numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np

_UNKNOWN: Final = frozenset({"", "-"})
_ZEEK_HEADER: Final = "#fields\t"


def read_lines(text: str, separator: str | None, texts: Collection[str]) -> Any:
    """Return the lines as an Arrow table; the columns ``texts`` hold text, whatever it looks like.

    ``separator`` is ``None`` for blanks, however many.
    """
    import pyarrow as pa

    lines = [line for line in text.splitlines() if line.strip()]
    header = next((line for line in lines if line.startswith(_ZEEK_HEADER)), None)
    rows = [line for line in lines if not line.startswith("#")]
    if header is not None:
        names = header.removeprefix(_ZEEK_HEADER).split("\t")
    else:
        names = rows.pop(0).split(separator) if rows else []
    if not names or len(set(names)) < len(names):
        raise pa.ArrowInvalid("it has no header with a name for each column")
    cells = [(row.split(separator) + [""] * len(names))[: len(names)] for row in rows]
    columns = zip(*cells, strict=True) if cells else ([] for _ in names)
    return pa.table(
        {
            name: _column([None if cell in _UNKNOWN else cell for cell in column], name in texts)
            for name, column in zip(names, columns, strict=True)
        }
    )


def _column(values: list[str | None], is_text: bool) -> Any:
    import pyarrow as pa

    if not is_text:
        try:
            numbers = np.array([np.nan if value is None else float(value) for value in values])
            return pa.array(numbers, from_pandas=True)
        except ValueError:
            pass
    return pa.array(values, pa.string())
