"""Read how far inputs are, without processing them.

A target with windows of rows cannot start before it knows how many rows each group had. Until then
it only has to report from when on it sees every row.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastream.handover.spark.columns import TIME
from elastream.model.errors import SparkError
from elastream.spark.observe.endings import ending

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def observed(rows: DataFrame, i: int) -> DataFrame:
    """Return an input whose newest time is reported in each batch's progress."""
    from pyspark.sql import functions as f

    return rows.observe(f"input{i}", f.max(f.unix_millis(TIME)).alias("newest"))


def seen_by(progress: dict[str, Any], inputs: int) -> dict[int, int]:
    """Return the newest time of each input that had rows in the batch."""
    told = progress.get("observedMetrics", {})
    newest = {i: told.get(f"input{i}", {}).get("newest") for i in range(inputs)}
    return {i: int(at) for i, at in newest.items() if at is not None}


class Probe:
    """A stream over the inputs without output."""

    def __init__(self, inputs: tuple[DataFrame, ...], folder: Path, trigger_s: float) -> None:
        times = [observed(rows, i).select(TIME) for i, rows in enumerate(inputs)]
        writer = reduce(lambda one, other: one.union(other), times).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(folder))
        self._streaming: StreamingQuery = writer.trigger(
            processingTime=f"{trigger_s:g} seconds"
        ).start()
        self._inputs = len(inputs)

    def newest(self) -> list[int] | None:
        """Return the newest time of each input; ``None`` until all have had rows."""
        if not self._streaming.isActive:
            raise SparkError(
                f"the target's inputs have ended: {ending(self._streaming.exception())}"
            )
        newest: dict[int, int] = {}
        for progress in self._streaming.recentProgress:
            for i, at in seen_by(json.loads(progress.json), self._inputs).items():
                newest[i] = max(newest.get(i, at), at)
        if len(newest) < self._inputs:
            return None
        return [newest[i] for i in range(self._inputs)]

    def stop(self) -> None:
        """Stop reading."""
        self._streaming.stop()
