"""What is seen of one run of a demo: for the terminal, the summary and the picture."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from elastream.core.decisions import Decision
from elastream.core.policy import planner_named
from elastream.demo.posts import EVERY_S

if TYPE_CHECKING:
    from elastream.core.scenes import Scene


@dataclass(frozen=True, slots=True)
class DemoSample:
    """The executors at one moment."""

    at_s: float
    """Seconds after the load began."""
    executors: int
    """Those at work."""
    alive: int
    """With the spare."""


@dataclass(kw_only=True)
class DemoRun(ABC):
    """One run: what it is, and what has been seen of it so far."""

    before: ClassVar[str]
    """What :meth:`waits_before` is of."""
    rows_name: ClassVar[str]
    """What is counted."""

    planner: str = "free-step"
    doing: str = "starting"
    """What goes on, in a few words."""
    start_ms: float | None = None
    """When the load began; ``None`` before."""
    decisions: list[Decision] = field(default_factory=list)
    samples: list[DemoSample] = field(default_factory=list)
    scene: Scene | None = None
    """``None`` before the loop is attached."""
    page: str | None = None
    """The URL of the page."""
    wrong_words: int | None = None
    """How many words have a wrong count; ``None`` before the check."""

    sizes: Sequence[int] = field(init=False)
    """The posts of each two seconds of the load."""
    least_executors: int = field(init=False)
    most_executors: int = field(init=False)

    def __post_init__(self) -> None:
        planner_named(self.planner)

    @property
    @abstractmethod
    def rows(self) -> int:
        """What was counted of the load."""

    @property
    @abstractmethod
    def work(self) -> str:
        """What a word costs."""

    @property
    @abstractmethod
    def last_wait_ms(self) -> float | None:
        """How long what was counted last has waited."""

    @abstractmethod
    def waits_ms(self) -> Sequence[float]:
        """Return how long each row waited until it was counted, in the order of its end."""

    @abstractmethod
    def waits_before(self, at_ms: float) -> Sequence[float]:
        """Return the waits of rows that were counted shortly before."""

    @abstractmethod
    def waits_between(self, begin_ms: float, end_ms: float) -> Sequence[float]:
        """Return the waits of rows that were due in a span."""

    @property
    def length_s(self) -> float:
        """How long the load lasts."""
        return len(self.sizes) * EVERY_S

    def rate(self, at_s: float) -> float:
        """Return how many posts come per second at a moment of the load."""
        return self.sizes[min(int(at_s / EVERY_S), len(self.sizes) - 1)] / EVERY_S

    @property
    def exact(self) -> bool:
        """Whether every word's count is that of the batch count."""
        return self.wrong_words == 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the load began, not beyond its end."""
        if self.start_ms is None:
            return 0.0
        return min(time.time() - self.start_ms / 1000, self.length_s)

    def since_s(self, at_ms: float | None) -> float:
        """Return seconds after the load began."""
        return ((at_ms or 0) - (self.start_ms or 0)) / 1000
