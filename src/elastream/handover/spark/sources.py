"""Where sources begin to be read, in the options that they have for it.

A handover asks the inputs for one thing (:class:`~elastream.handover.model.Start`): all that there
is, what comes from now on, or every row from a time on. Any source of which one of the latter two
can be said will do; these are the words for two that many have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastream.handover.model import Start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["files_since", "kafka_start"]


def kafka_start(start: Start, *, early_ms: int = 0) -> dict[str, str]:
    """Return the options of a Kafka stream that is read from there on.

    A time is looked up among the records' own timestamps. Where rows carry another time that may be
    *later* than their record's, say by how much at most: so much earlier it begins.
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
    """Return the rows of a stream of files that were written from there on.

    Spark lists all files and reads none that is older. A row's time may be later than the writing
    of its file by ``early_ms``.
    """
    from pyspark.sql import functions as f

    if start.kind == "first":
        return files
    written = f.unix_millis("_metadata.file_modification_time")
    return files.where(written >= start.at_ms - early_ms)
