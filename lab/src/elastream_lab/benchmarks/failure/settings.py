"""What ``elastream bench failure`` is asked to do, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elastream.model.checks import count
from elastream_lab.benchmarks.migration.bench import BenchSettings, check_known

WAYS: Final = ("stock", "elastream", "standbys")
"""Ways to live with a loss, in the order in which they run."""

_STATE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class FailureSettings:
    """What shall be compared; checked when made."""

    states: tuple[int, ...] = (_STATE_BYTES,)
    """Bytes of state."""
    ways: tuple[str, ...] = WAYS
    executors: int = 3
    """How many there are, until one is killed."""
    hot_share: float = 0.2
    """Which part of the state the stream updates."""
    repeats: int = 1
    trigger_s: float = 1.0

    def __post_init__(self) -> None:
        check_known("ways", self.ways, WAYS)
        count("executors", self.executors, least=2, most=64)
        _ = self.stream  # which checks the rest

    @property
    def stream(self) -> BenchSettings:
        """The stream: the migration benchmark's, at a rate that those who are left can bear."""
        return BenchSettings(
            states=self.states,
            executors=(self.executors - 1, self.executors),
            hot_share=self.hot_share,
            repeats=self.repeats,
            trigger_s=self.trigger_s,
        )

    def as_json(self) -> dict[str, object]:
        """Return them in the names of the run summaries; of several states the largest."""
        return {**self.stream.as_json(), "executors": self.executors}
