"""Names of the columns that a handover knows."""

from __future__ import annotations

from typing import Final

__all__ = ["COORDINATE", "NUMBER", "ROW_NUMBER", "TIME"]

TIME: Final = "at"
"""Of inputs: the time of a row, a timestamp."""
COORDINATE: Final = "coordinate"
"""Of results: where their window starts, in milliseconds since the epoch."""
NUMBER: Final = "number"
"""Of windows of rows: the number of the window's first row, from 0 in its group."""
ROW_NUMBER: Final = "row_number"
"""Of the rows in a window of rows: the row's own number in its group."""
