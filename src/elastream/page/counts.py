"""Counts: totals of decisions and batches since the page began.

A fold of records into a frozen value, which another thread can read at any time. The records are
the same while a run goes on and when its log is read. From ``MOST_QUERIES`` on, queries that have
left are forgotten, the first to leave first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from elastream.core.change import ChangeKind
from elastream.core.decisions import Decision, Kind
from elastream.model.checks import Number

MOST_QUERIES: Final = 1000
"""Queries whose counts are kept."""

Outcome = Literal["done", "abandoned"]

UNKNOWN: Final = "unknown"
"""The kind of a change whose beginning is not in the records."""

_BATCH_S: Final = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
_CHANGE_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_LARGEST: Final = 1e15
"""In ms or rows; anything above is not a measurement."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of values by bucket."""

    bounds: tuple[float, ...]
    """Upper bounds of the buckets, which they include."""
    counts: tuple[int, ...]
    """By bucket; the last is above all bounds."""
    total: float = 0.0

    @classmethod
    def over(cls, bounds: tuple[float, ...]) -> Histogram:
        """Return one that holds nothing yet."""
        return cls(bounds, (0,) * (len(bounds) + 1))

    def plus(self, value: float) -> Histogram:
        """Return it with one value more."""
        counts = list(self.counts)
        counts[bisect_left(self.bounds, value)] += 1
        return Histogram(self.bounds, tuple(counts), self.total + value)


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Totals of one query."""

    rows: Number = 0
    batch_s: Histogram = field(default_factory=lambda: Histogram.over(_BATCH_S))
    asked_again: Number = 0
    """Moves of its tasks that were requested again because they did not hold."""
    refused: Number = 0
    """Moves of its tasks that the runtime did not take."""
    predicted_ms: Number | None = None
    """How long its batches would take after the last change, by its plan."""
    measured_ms: Number | None = None
    """How long they took."""


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """Totals of the changes of one kind."""

    tasks: Number = 0
    state_bytes: Number = 0
    tasks_ahead: Number = 0
    """Of the tasks, those whose state had travelled before them."""
    state_bytes_ahead: Number = 0
    bytes_from_storage: Number = 0
    """Loaded from the checkpoint for copies."""
    bytes_from_executors: Number = 0
    """Sent for copies by the executors that owned the state."""
    planned_bytes: Number = 0
    """By the plans, also those that were abandoned."""
    lower_bound_bytes: Number = 0
    """The least that any plan could move."""


@dataclass(frozen=True, slots=True)
class Counted:
    """All totals so far."""

    decisions: Mapping[Kind, int] = field(default_factory=lambda: dict.fromkeys(get_args(Kind), 0))
    queries: Mapping[str, QueryCounts] = field(default_factory=dict)
    """By name."""
    left: Mapping[str, None] = field(default_factory=dict)
    """The queries that have left, the first to leave first."""
    changes: Mapping[tuple[str, Outcome], Histogram] = field(
        default_factory=lambda: {
            (kind, outcome): Histogram.over(_CHANGE_S)
            for kind in get_args(ChangeKind)
            for outcome in get_args(Outcome)
        }
    )
    """Seconds that changes took, by kind and outcome."""
    moves: Mapping[str, MoveCounts] = field(
        default_factory=lambda: {kind: MoveCounts() for kind in get_args(ChangeKind)}
    )
    """By kind of change."""
    executors_lost: Number = 0
    stuck_calls: int = 0
    """Calls on the runtime that timed out, and times the monitor fell silent."""
    events_lost: Number = 0
    """Events of Spark that were lost because there were too many."""
    failures: int = 0
    """How often the loop failed, and let go."""
    demand: Number | None = None
    """Work asked for over work done, when last evaluated; ``None`` where no goal does."""
    wanted: Number | None = None
    """Executors that the goal last wanted in vain; ``None`` where it wanted no change."""
    under_way: str | None = None
    """The kind of the change under way."""
    predicted_busiest: Number | None = None
    """For what share of its time the busiest executor would work after the last change."""
    measured_busiest: Number | None = None
    """For what share it worked."""


class Counts:
    """Adds up records; one thread may write while others read."""

    def __init__(self) -> None:
        self._counted = Counted()

    @property
    def now(self) -> Counted:
        """The totals so far, immutable."""
        return self._counted

    def take_decision(self, decision: Decision) -> None:
        """Count a decision."""
        self._counted = _with_decision(self._counted, decision)

    def take_batches(self, batches: Iterable[Sequence[Any]]) -> None:
        """Count batches as a line of a scene has them: query, batch, at_ms, ms, rows."""
        queries = dict(self._counted.queries)
        for query, _, _, ms, rows in batches:
            before = queries.get(query, QueryCounts())
            if 0 <= ms <= _LARGEST and 0 <= rows <= _LARGEST:
                queries[query] = replace(
                    before, rows=before.rows + rows, batch_s=before.batch_s.plus(ms / 1000)
                )
        self._counted = _bounded(replace(self._counted, queries=queries))


def _with_decision(counted: Counted, decision: Decision) -> Counted:
    kind, figures = decision.kind, decision.figures
    decisions = {**counted.decisions, kind: counted.decisions[kind] + 1}
    counted = replace(counted, decisions=decisions)
    match kind:
        case "attach" | "detach":
            failures = counted.failures + bool(figures.get("failed"))
            rest = replace(counted, under_way=None, demand=None, wanted=None)
            return replace(rest, failures=failures)
        case "join" | "leave":
            return _with_query(counted, decision)
        case "hold":
            return replace(counted, demand=figures.get("demand"), wanted=figures.get("wanted"))
        case "scale-out" | "scale-in" | "rebalance" | "move":
            demand = figures.get("demand", counted.demand)
            return replace(counted, under_way=kind, demand=demand, wanted=None)
        case "plan":
            return _with_plan(counted, figures)
        case "done" | "abandon" if "seconds" in figures:  # otherwise it was only requested
            return _with_end(counted, "done" if kind == "done" else "abandoned", figures)
        case "migrate" | "verify" if decision.query is not None:
            return _with_moves(counted, decision.query, asked_again=figures.get("asked_again", 0))
        case "wait" | "lost" if decision.query is not None and "tasks_refused" in figures:
            return _with_moves(counted, decision.query, refused=figures["tasks_refused"])
        case "lost":
            lost = counted.executors_lost + figures.get("executors_lost", 0)
            return replace(counted, executors_lost=lost)
        case "stuck" if not figures.get("came_back"):
            return replace(counted, stuck_calls=counted.stuck_calls + 1)
        case "wait":
            return replace(counted, events_lost=counted.events_lost + figures.get("dropped", 0))
        case _:
            return counted


def _with_query(counted: Counted, decision: Decision) -> Counted:
    if decision.query is None:
        return counted
    left = {name: None for name in counted.left if name != decision.query}
    if decision.kind == "leave":
        left[decision.query] = None
    known = counted.queries.get(decision.query, QueryCounts())
    queries = {**counted.queries, decision.query: known}
    return _bounded(replace(counted, queries=queries, left=left))


def _with_plan(counted: Counted, figures: Mapping[str, Number]) -> Counted:
    kind = counted.under_way or UNKNOWN
    before = counted.moves.get(kind, MoveCounts())
    after = replace(
        before,
        planned_bytes=before.planned_bytes + figures.get("state_bytes_to_move", 0),
        lower_bound_bytes=before.lower_bound_bytes + figures.get("state_bytes_lower_bound", 0),
    )
    return replace(counted, moves={**counted.moves, kind: after})


def _with_end(counted: Counted, outcome: Outcome, figures: Mapping[str, Any]) -> Counted:
    kind = counted.under_way or UNKNOWN
    before = counted.moves.get(kind, MoveCounts())
    moved = replace(
        before,
        tasks=before.tasks + figures.get("tasks_moved", 0),
        state_bytes=before.state_bytes + figures.get("state_bytes_moved", 0),
        tasks_ahead=before.tasks_ahead + figures.get("tasks_ahead", 0),
        state_bytes_ahead=before.state_bytes_ahead + figures.get("state_bytes_ahead", 0),
        bytes_from_storage=before.bytes_from_storage + figures.get("bytes_from_storage", 0),
        bytes_from_executors=before.bytes_from_executors + figures.get("bytes_from_executors", 0),
    )
    queries = dict(counted.queries)
    predicted = figures.get("predicted_batch_ms", {})
    for name, measured_ms in figures.get("measured_batch_ms", {}).items():
        known = queries.get(name, QueryCounts())
        queries[name] = replace(known, predicted_ms=predicted.get(name), measured_ms=measured_ms)
    counted = _bounded(replace(counted, queries=queries))
    seconds = max(0.0, figures["seconds"])  # a clock may be set back
    took = counted.changes.get((kind, outcome), Histogram.over(_CHANGE_S)).plus(seconds)
    return replace(
        counted,
        changes={**counted.changes, (kind, outcome): took},
        moves={**counted.moves, kind: moved},
        under_way=None,
        wanted=None,
        predicted_busiest=figures.get("predicted_busiest"),
        measured_busiest=figures.get("measured_busiest"),
    )


def _with_moves(
    counted: Counted, query: str, *, asked_again: Number = 0, refused: Number = 0
) -> Counted:
    before = counted.queries.get(query, QueryCounts())
    after = replace(
        before, asked_again=before.asked_again + asked_again, refused=before.refused + refused
    )
    return _bounded(replace(counted, queries={**counted.queries, query: after}))


def _bounded(counted: Counted) -> Counted:
    """Return it without surplus queries: the first that left, else the oldest."""
    too_many = len(counted.queries) - MOST_QUERIES
    if too_many <= 0:
        return counted
    gone = set(list({**counted.left, **dict.fromkeys(counted.queries)})[:too_many])
    queries = {name: each for name, each in counted.queries.items() if name not in gone}
    left = {name: None for name in counted.left if name not in gone}
    return replace(counted, queries=queries, left=left)
