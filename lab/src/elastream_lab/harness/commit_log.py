"""What a query's checkpoint shows about its batches: which rows, when begun, when finished.

Spark writes ``offsets/N`` before batch N runs and ``commits/N`` when it is done. Their times of
writing are the batch's beginning and end, whoever ran it: one application, one started again, or
another one on the same checkpoint. So one yardstick serves every mechanism that is compared, and
costs the query nothing.

For queries with the replay source alone, whose offset is a position. Spark keeps the files of the
last ``spark.sql.streaming.minBatchesToRetain`` batches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from elastream.model.errors import SparkError
from elastream_lab.harness.replay import POSITION

RETAIN_ALL = {"spark.sql.streaming.minBatchesToRetain": "100000"}
"""Session setting with which the checkpoint of a run of minutes shows of every batch."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """One batch that is done."""

    batch: int
    start: int
    """Position of its first row."""
    end: int
    """Position after its last row."""
    began_ms: float
    """When its offsets were written, in milliseconds since the epoch."""
    finished_ms: float
    """When it was committed, in milliseconds since the epoch."""

    @property
    def duration_ms(self) -> float:
        """From its offsets to its commit."""
        return self.finished_ms - self.began_ms


def committed_batches(checkpoint: Path, *, after: int = -1) -> tuple[CommittedBatch, ...]:
    """Return the batches committed so far whose number is above ``after``, in order."""
    commits = {
        int(file.name): file for file in (checkpoint / "commits").glob("*") if file.name.isdigit()
    }
    found = []
    for batch in sorted(number for number in commits if number > after):
        offsets = checkpoint / "offsets" / str(batch)
        before = checkpoint / "offsets" / str(batch - 1)
        found.append(
            CommittedBatch(
                batch=batch,
                start=_position(before) if batch else 0,
                end=_position(offsets),
                began_ms=offsets.stat().st_mtime_ns / 1e6,
                finished_ms=commits[batch].stat().st_mtime_ns / 1e6,
            )
        )
    return tuple(found)


def _position(offsets: Path) -> int:
    """Return the position in an offset log, whose last line is the source's offset."""
    try:
        offset = json.loads(offsets.read_text().splitlines()[-1])
        return int(offset[POSITION])
    except (OSError, ValueError, LookupError, TypeError):
        raise SparkError(f"{offsets} is not the offset of a replay") from None
