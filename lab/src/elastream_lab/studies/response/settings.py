"""What the study of response times compares; checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from elastream.foresight.mtm.problem import discount
from elastream.model.checks import abbreviate, count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream_lab.applications.patterns.plain_miner import Mining
from elastream_lab.studies.response.planning import PLANNERS


@dataclass(frozen=True, slots=True)
class Application:
    """One of the papers' two applications, in a sliding window."""

    most_words: int
    """How many words go together at most; 1 counts words."""
    service_us: float
    """What each takes where it is counted, in each window that it is in: slept."""


APPLICATIONS: Final[Mapping[str, Application]] = MappingProxyType(
    {"words": Application(1, 500.0), "patterns": Application(3, 150.0)}
)
"""Words are patterns of one word: counted, frequent or not, in the same sliding window."""

_TICK: Final = 100
_FREQUENT: Final = 20
"""A pattern is frequent that one in this many posts of the window has."""


@dataclass(frozen=True, slots=True)
class ResponseStudy:
    """The cases, and how each is measured."""

    applications: tuple[str, ...] = tuple(APPLICATIONS)
    windows: tuple[int, ...] = (200, 400, 800)
    """Posts in the sliding window, multiples of a hundred: what the figures vary."""
    planners: tuple[str, ...] = PLANNERS
    sizes: tuple[int, ...] = (2, 4, 3, 4, 2)
    """How many executors hold state, one after the other, on real ones."""
    seconds: float = 120.0
    """How long after a migration was asked for rows count as its; the papers' two minutes."""
    repeats: int = 2
    posts_a_second: float = 40.0
    partitions: int = 8
    """State partitions of each operator, on real executors."""
    tau: float = 0.4
    gamma: float = 0.8
    seed: int = 1
    nodes: tuple[int, int] = (8, 16)
    """Fewest and most nodes of the simulated cluster."""
    tasks: int = 64
    """Tasks on the simulated cluster."""
    migrations: int = 12
    """Consecutive migrations in a run there."""

    def __post_init__(self) -> None:
        _known("applications", self.applications, tuple(APPLICATIONS))
        _known("planners", self.planners, PLANNERS)
        if not self.windows:
            raise ProblemError("windows", "name at least one")
        for window in self.windows:
            count("windows", window, least=_TICK, most=100 * _TICK)
            if window % _TICK:
                raise ProblemError("windows", f"{window} is not a multiple of {_TICK}")
        for size in self.sizes:
            count("sizes", size, least=1, most=16)
        if len(self.sizes) < 2 or any(a == b for a, b in pairwise(self.sizes)):
            why = f"{abbreviate(self.sizes)} are not two or more, each unlike the one before"
            raise ProblemError("sizes", why)
        if not 2 <= positive("seconds", self.seconds) <= 3600:
            raise ProblemError("seconds", f"{self.seconds:g} is not between 2 and 3600")
        count("repeats", self.repeats, least=1, most=100)
        positive("posts_a_second", self.posts_a_second)
        count("partitions", self.partitions, least=1, most=200)
        non_negative("tau", self.tau)
        discount("gamma", self.gamma)
        count("seed", self.seed)
        least, most = self.nodes
        count("nodes", least, least=1)
        if most <= least:
            raise ProblemError("nodes", f"{most} nodes at most are not above {least} at least")
        count("tasks", self.tasks, least=most)
        count("migrations", self.migrations, least=2, most=1000)

    @property
    def span(self) -> str:
        """Over how long a delay is measured, for the line that names it."""
        return f"rows due in the {self.seconds:g} s after a migration was asked for"

    def mining(self, application: str, window: int) -> Mining:
        """Return what is counted."""
        words = APPLICATIONS[application].most_words
        return Mining(window=window, tick=_TICK, least=window // _FREQUENT, most_words=words)


def _known(field: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    if not given:
        raise ProblemError(field, f"name at least one of {', '.join(known)}")
    for name in given:
        if name not in known:
            raise ProblemError(field, f"{abbreviate(name)} is not one of {', '.join(known)}")
