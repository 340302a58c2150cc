"""Names of the columns that a handover uses."""

from __future__ import annotations

from typing import Final

TIME: Final = "at"
"""In inputs: the time of a row, a timestamp."""
COORDINATE: Final = "coordinate"
"""In results: the start of their window, in milliseconds since the epoch."""
NUMBER: Final = "number"
"""In windows of rows: the number of the window's first row, from 0 in its group."""
ROW_NUMBER: Final = "row_number"
"""In the rows of a window of rows: the row's own number in its group."""
