"""Start positions of sources, as options of the source.

A handover needs one thing from the inputs (:class:`~elastream.handover.model.Start`): all available
rows, rows from now on, or every row from a time on. Any source that supports one of the latter two
will do; these are the options of two common ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastream.handover.model import Start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def kafka_start(start: Start, *, early_ms: int = 0) -> dict[str, str]:
    """Return the options of a Kafka stream that is read from this start.

    A time is looked up among the records' own timestamps. If rows carry another time that may be
    *later* than their record's, ``early_ms`` is the maximum difference: reading starts that much
    earlier.
    """
    if start.kind == "first":
        return {"startingOffsets": "earliest"}
    if start.kind == "now":
        return {"startingOffsets": "latest"}
    return {
        "startingTimestamp": str(start.at_ms - early_ms),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def files_since(files: DataFrame, start: Start, *, early_ms: int = 0) -> DataFrame:
    """Return the rows of a stream of files that were written from this start on.

    Spark lists all files and skips those that are older. A row's time may be later than the writing
    of its file by ``early_ms``.
    """
    from pyspark.sql import functions as f

    if start.kind == "first":
        return files
    written = f.unix_millis("_metadata.file_modification_time")
    return files.where(written >= start.at_ms - early_ms)
