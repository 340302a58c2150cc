"""A month of load as a sequence of migrations (papers 000 and 001, section 6).

Work drifts with the data: the migration of an interval is planned with the work and the state of
that interval. In a quiet hour a few records decide which task is heavy, and the threshold may be
beyond reach for any planner; then the threshold of that one migration is widened to what the most
even intervals need, for all planners alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastream.foresight.commands.trace import UNITS_S
from elastream.foresight.traces.folder import read_manifest, read_nodes, read_tasks
from elastream.model.errors import ProblemError
from elastream.model.migration import LOAD_TOLERANCE
from elastream.placement.even_spread import even_bounds

_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Migration:
    """One change of the number of nodes."""

    work: tuple[int, ...]
    state: tuple[int, ...]
    nodes: int
    """How many nodes there are afterwards."""
    least_tau: float
    """The threshold that the most even intervals need."""

    def tau(self, tau: float) -> float:
        """Return the threshold that this migration is planned with where ``tau`` is asked for."""
        return max(tau, self.least_tau)

    def limit(self, tau: float, nodes: int | None = None) -> float:
        """Return the most work of a node, of this many nodes or those there are afterwards."""
        return (1 + self.tau(tau)) * sum(self.work) / (nodes or self.nodes)

    def imbalance(self, heaviest: float) -> float:
        """Return the threshold that a node of so much work needs."""
        mean = sum(self.work) / self.nodes
        return heaviest / mean - 1 if mean else 0.0

    def is_over(self, heaviest: float, tau: float) -> bool:
        """Return whether a node of so much work is over the limit."""
        return heaviest > self.limit(tau) * (1 + 2 * LOAD_TOLERANCE)


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Work and state of every task in every interval, and how many nodes each interval has."""

    work: NDArray[np.int64]
    state: NDArray[np.int64]
    nodes: tuple[int, ...]
    sizes: range
    """The range of node counts, seen or not."""
    usual_state: NDArray[np.int64]
    """What each task is expected to hold."""
    name: str = "word count"
    """What the query computes."""
    source: str = "made"
    """Where the records come from."""

    @property
    def tasks(self) -> int:
        """How many tasks there are (m)."""
        return int(self.work.shape[1])

    def folded(self, tasks: int) -> Load:
        """Return the same load on fewer tasks: a divisor of their number.

        A key that hashes to task j of m is on task ``j mod tasks``, as if the trace had been built
        with this many.
        """
        if self.tasks % tasks:
            raise ProblemError("tasks", f"{tasks} does not divide the trace's {self.tasks}")
        shape = (-1, self.tasks // tasks, tasks)
        return replace(
            self,
            work=self.work.reshape(shape).sum(axis=1),
            state=self.state.reshape(shape).sum(axis=1),
            usual_state=self.usual_state.reshape(shape).sum(axis=1)[0],
        )

    def migrations(self, most: int) -> tuple[Migration, ...]:
        """Return the first migrations, at most this many."""
        changes = [
            t for t, (before, after) in enumerate(pairwise(self.nodes), 1) if before != after
        ]
        return tuple(self._migration(t) for t in changes[:most])

    def _migration(self, interval: int) -> Migration:
        work = tuple(self.work[interval].tolist())
        nodes = self.nodes[interval]
        heaviest = max(sum(work[a:b]) for a, b in pairwise(even_bounds(work, nodes)))
        mean = sum(work) / nodes
        least = heaviest / mean - 1 if mean else 0.0
        state = tuple(self.state[interval].tolist())
        return Migration(work, state, nodes, max(0.0, least * (1 + _SLACK) + _SLACK))


def read_load(trace: Path) -> Load:
    """Return the load of a built trace that has its node counts."""
    kept, tasks = read_nodes(trace), read_tasks(trace)
    settings = read_manifest(trace).get("settings", {})
    return Load(
        work=tasks.work,
        state=tasks.state_bytes,
        nodes=tuple(kept["nodes"]),
        sizes=range(kept["min"], kept["max"] + 1),
        usual_state=tasks.usual_state_bytes,
        name=_name(settings),
        source=_source(settings, trace),
    )


def _source(settings: Mapping[str, Any], trace: Path) -> str:
    """Return the names of the files that the trace was made of, or its own."""
    given = settings.get("input")
    files = [Path(str(each)).name for each in given] if isinstance(given, list) else []
    return ", ".join(files) or trace.name


def _name(settings: Mapping[str, Any]) -> str:
    """Return what is counted, as the settings of the trace tell."""
    patterns, key = settings.get("patterns"), settings.get("key")
    name = "word count" if key is None else f"counts by {key}"
    if patterns is not None:
        name = f"counts of patterns of up to {patterns} words"
    window_s = settings.get("window_s")
    return name if window_s is None else f"{name} in a window of {length_of(window_s)}"


def length_of(seconds: int) -> str:
    """Return a length of time as the option reads it, in the largest unit that fits."""
    unit = next(unit for unit in reversed(UNITS_S) if seconds % UNITS_S[unit] == 0)
    return f"{seconds // UNITS_S[unit]}{unit}"
