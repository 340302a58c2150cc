"""Detect sessions that started before a time and are still open, from a query's own state.

The length of a session is not known beforehand: it ends when its key has been silent for a gap. So
the origin of a handover cannot know from the watermark alone that its last session is written.
Spark keeps each open session under its start, and reads its state back as a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_START: Final = "sessionStartTime"
"""Spark's name for the start of a session in the keys of its state."""


def open_sessions_before(spark: SparkSession, checkpoint: Path, at_ms: int) -> bool:
    """Return whether a session that started before then is open after the last committed batch."""
    from pyspark.sql import functions as f

    metadata = spark.read.format("state-metadata").load(str(checkpoint))
    operators = [
        row["operatorId"]
        for row in metadata.select("operatorId", "operatorName").distinct().collect()
        if "session" in row["operatorName"].lower()
    ]
    for operator in operators:
        state = spark.read.format("statestore").option("operatorId", operator)
        keys = state.load(str(checkpoint)).select("key.*")
        if keys.where(f.unix_millis(_START) < at_ms).limit(1).count():
            return True
    return False
