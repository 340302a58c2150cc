"""What ``elastream bench relief`` is asked to do, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream_lab.benchmarks.migration.bench import check_known
from elastream_lab.benchmarks.relief.shapes import SHAPES

CHANGES: Final = ((2, 4), (4, 2), (2, 3))
"""In an order in which each begins where the one before ended."""


@dataclass(frozen=True, slots=True)
class ReliefSettings:
    """What shall be measured; checked when made."""

    shape: tuple[str, ...] = tuple(SHAPES)
    change: tuple[tuple[int, int], ...] = CHANGES
    """From how many executors to how many, in the order in which a stream goes through them."""
    planner: str = "free-step"
    tau: float = 0.1
    row_ms: float = 20.0
    """What a row costs in each stage, slept."""
    batches: int = 6
    """Steady batches before a change, and after it, whose median counts."""
    executor_memory_mb: int = 700

    def __post_init__(self) -> None:
        check_known("shape", self.shape, tuple(SHAPES))
        if not self.change:
            raise ProblemError("change", "name at least one, as 2-4")
        for before, after in self.change:
            for number in (before, after):
                count("change", number, least=1, most=16)
            if before == after:
                raise ProblemError("change", f"{before}-{after} changes nothing")
        non_negative("tau", self.tau)
        positive("row_ms", self.row_ms)
        count("batches", self.batches, least=5, most=1000)
        count("executor_memory_mb", self.executor_memory_mb, least=500)

    @property
    def max_executors(self) -> int:
        """How many there are at most."""
        return max(max(each) for each in self.change)

    def as_json(self) -> dict[str, object]:
        """Return them in the names of the run summaries."""
        return {
            "shapes": list(self.shape),
            "changes": [list(each) for each in self.change],
            "planner": self.planner,
            "tau": self.tau,
            "row_ms": self.row_ms,
            "work": "slept",
            "batches": self.batches,
        }
