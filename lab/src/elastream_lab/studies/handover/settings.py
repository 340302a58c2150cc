"""What the handover study runs; checked when it is made, before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream_lab.applications.readings.source import Readings
from elastream_lab.studies.handover.outputs import QUERIES

_PATIENCE_S: Final = 300.0
"""What a run may take beyond what its windows explain."""
EMBEDDED: Final = "embedded"
"""The master of a side that gets a cluster of its own: Spark's master, a worker, an executor."""
AROUND_MS: Final = 2000
"""So long before and after the handover response times are compared, as in the paper."""


@dataclass(frozen=True, slots=True)
class HandoverSettings:
    """What shall be run; checked when made."""

    queries: tuple[str, ...] = tuple(QUERIES)
    range_s: float = 10.0
    """The range of the joins, 10 s in the paper."""
    join_at_s: float = 10.0
    """The target joins so long after the stream began."""
    gap_ms: int = 50
    """Mean time between the readings of a stream."""
    places: int = 40
    trigger_s: float = 3.0
    """A batch begins so often: seldom enough that two cores have time for both applications."""
    seed: int = 1
    repeats: int = 3
    """How often each query runs with and without a handover."""
    masters: tuple[str, ...] = (EMBEDDED, EMBEDDED)
    """Of the origin and the target; one alone is for both."""

    def __post_init__(self) -> None:
        for name in self.queries:
            if name not in QUERIES:
                known = ", ".join(QUERIES)
                raise ProblemError("queries", f"there is no {name!r}; there are {known}")
        if not self.queries:
            raise ProblemError("queries", "is empty; name at least one")
        if non_negative("range_s", self.range_s) * 1000 < 1:
            raise ProblemError("range_s", f"{self.range_s:g} is below a millisecond")
        if non_negative("join_at_s", self.join_at_s) < AROUND_MS / 1000:
            least = f"{AROUND_MS / 1000:g}"
            raise ProblemError("join_at_s", f"{self.join_at_s:g} is below {least}; compare what?")
        positive("trigger_s", self.trigger_s)
        count("gap_ms", self.gap_ms, least=1)
        count("places", self.places, least=1)
        count("seed", self.seed)
        count("repeats", self.repeats, least=1)
        if len(self.masters) not in (1, 2) or not all(self.masters):
            raise ProblemError("masters", f"are {len(self.masters)}; give one, or two with a comma")

    @property
    def both_masters(self) -> tuple[str | None, str | None]:
        """The master that each side gets; ``None`` for a cluster of its own."""
        origin, target = (self.masters * 2)[:2]
        return (None if origin == EMBEDDED else origin), (None if target == EMBEDDED else target)

    @property
    def told_masters(self) -> str:
        """Both masters in words."""
        return "on " + " and ".join((self.masters * 2)[:2])

    @property
    def range_ms(self) -> int:
        """The range of the joins in milliseconds."""
        return round(self.range_s * 1000)

    @property
    def longest_s(self) -> float:
        """How long a run may take."""
        return self.join_at_s + 2 * self.range_s + _PATIENCE_S

    def readings(self, start_ms: int) -> Readings:
        """Return the readings of a run that starts then; more than it can take."""
        rows = round(self.longest_s * 1000 / self.gap_ms)
        return Readings(start_ms, rows, self.gap_ms, self.seed, places=self.places)
