"""What ``elastream bench realtime`` is asked to do, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import ProblemError

PARTITIONS: Final = 4
"""Partitions of state; the source has half as many."""
_SHORTEST_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RealtimeSettings:
    """What shall be measured; checked when made."""

    rows_a_second: float = 200.0
    burst: float = 2.0
    """How many times as many rows come while executors come and go."""
    partition_mb: float = 10.0
    """Megabytes of state in each of the four partitions."""
    batches: int = 3
    """Boundaries of each stretch without a change."""
    rounds: int = 2
    """How often the query runs without elastream and with it, in turn."""
    trigger_s: float = 10.0

    def __post_init__(self) -> None:
        positive("rows_a_second", self.rows_a_second)
        positive("burst", self.burst)
        non_negative("partition_mb", self.partition_mb)
        count("batches", self.batches, least=1, most=1000)
        count("rounds", self.rounds, least=1, most=100)
        if positive("trigger_s", self.trigger_s) < _SHORTEST_S:
            short = f"{self.trigger_s:g} is too short; Spark takes {_SHORTEST_S:g} s or more"
            raise ProblemError("trigger_s", short)

    def as_json(self) -> dict[str, object]:
        """Return them in the names of the run summaries."""
        return {
            "rows_per_s": self.rows_a_second,
            "burst": self.burst,
            "partition_bytes": round(self.partition_mb * 1e6),
            "partitions": PARTITIONS,
            "batches": self.batches,
            "rounds": self.rounds,
            "trigger_s": self.trigger_s,
            "source": "files of timed lines",
        }
