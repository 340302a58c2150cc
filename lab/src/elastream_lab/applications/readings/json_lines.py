"""Results of a small query as files that a study reads by their time: one of lines for a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.atomic_io import write_text
from elastream.handover.spark.sinks import Sink, SinkOf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def json_lines(folder: Path) -> SinkOf:
    """Write a file of JSON lines for each batch with results, whole, through the driver."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(results: DataFrame, number: int) -> None:
        rows = sorted(json.dumps(row.asDict(), default=str) for row in results.collect())
        if rows:
            write_text(folder / f"{number:08d}.jsonl", "".join(f"{row}\n" for row in rows))

    def sink_of(_: object) -> Sink:
        return write

    return sink_of
