"""The load of an application in the unit of the marks: what executors do, and are asked to do."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from elastream.core.application import Observed, Query
from elastream.core.load import SIZE_STEP
from elastream.model.observation import Executor
from elastream.placement.even_spread import even_max_load

SLACK: Final = 1e-9
"""Relative slack of comparisons, so that rounding alone changes nothing."""
_MANY: Final = 2000
"""Pairs of query and executor from which NumPy adds their work; it takes a while to load."""
_LEAST_USABLE = 0.2
"""A trigger shorter than the time outside the tasks cannot be kept by adding executors: the
usable share is not taken below this, so that such a query does not ask for far too many."""


class Usage:
    """The load in the unit of the marks: 1 is an executor busy all of the time it can use."""

    def __init__(
        self, observed: Observed, *, catch_up_s: float, keep_triggers: bool, grown: float = 1.0
    ) -> None:
        executors, queries = observed.executors, observed.queries.values()
        self._queries = tuple(queries)
        slots_of = {executor.id: executor.slots for executor in executors}
        slots = sum(slots_of.values()) / len(executors)
        self.slots = 1.0 if any(query.realtime for query in queries) else slots
        """Of an executor, in the mean: a task uses one; in Real-time Mode tasks share all."""
        wanted = [demand(query, catch_up_s, grown) for query in queries]
        bearable = [_bearable(query) for query in queries]
        demands = [min(pair) for pair in zip(wanted, bearable, strict=True)]
        self.limited = tuple(query for query in queries if _limits(query, catch_up_s))
        """Whose source gives a trigger fewer rows than are asked for."""
        self.saturated = tuple(
            query
            for query, more, most in zip(queries, wanted, bearable, strict=True)
            if more > most * (1 + SLACK)
        )
        """Whose heaviest tasks cannot do what is asked for."""
        self._scales = tuple(
            observed.slots_busy(query, asked)
            / (slots * (_usable_share(query) if keep_triggers else 1.0))
            for query, asked in zip(queries, demands, strict=True)
        )
        worked = sum(query.load.work for query in queries)
        asked = sum(q.load.work * more for q, more in zip(queries, demands, strict=True))
        self.demand = asked / worked if worked > 0 else 1.0
        """Work asked for over work done."""
        self.cores_needed = asked
        held = _held(queries, self._scales, observed)
        for executor, work in observed.other.items():
            if executor in held:
                held[executor] += work / slots
        self.outside = sum(observed.other.values()) / slots
        """Of everything but stateful tasks, all executors together."""
        for query, more in zip(queries, demands, strict=True):
            for executor, work in query.load.outside.items():
                if executor in held:
                    held[executor] += observed.slots_busy(query, work) * more / slots
            outside = sum(query.load.outside.values())
            self.outside += observed.slots_busy(query, outside) * more / slots
        sizes = {executor: number / slots for executor, number in slots_of.items()}
        alike = len(set(slots_of.values())) == 1

        def all_on(query: Query) -> bool:
            if _are_many(queries, executors):
                return query.load.held_on(executors).whole
            return query.load.held.keys() <= sizes.keys()

        self.held = {executor: work / sizes[executor] for executor, work in held.items()}
        """Of each executor that is alive, with all that it does."""
        self.batches = {
            query.name: scale * _length(query, sizes, self.slots, alike=alike and all_on(query))
            + _outside(query, len(held)) * more / slots
            for query, scale, more in zip(queries, self._scales, demands, strict=True)
            if _has_length(query, self.slots)
        }
        """Of each query of several stages, or on several slots an executor: the time that its
        stages take, one after another. No query does more than 1, however idle executors are."""
        self.tasks = sum(q.load.work * s for q, s in zip(queries, self._scales, strict=True))
        """Of all stateful tasks together."""
        self.heaviest = max(
            (q.load.heaviest * s for q, s in zip(queries, self._scales, strict=True)), default=0.0
        )
        self.count = sum(len(query.load.tasks) for query in queries)
        self._long = tuple(
            (query, scale)
            for query, scale in zip(queries, self._scales, strict=True)
            if _has_length(query, self.slots)
        )

    @property
    def total(self) -> float:
        """Of all work together."""
        return self.tasks + self.outside

    @property
    def mean(self) -> float:
        """Of an executor, in the mean."""
        return self.total / len(self.held)

    @property
    def busiest(self) -> float:
        """Of the busiest executor, or of the busiest query where that is more."""
        return max(self.each)

    @property
    def each(self) -> tuple[float, ...]:
        """Of the busiest executor, and of every query in ``batches``."""
        return max(self.held.values()), *self.batches.values()

    @property
    def alone(self) -> tuple[float, ...]:
        """The same if every task had an executor of its own."""
        return self.heaviest, *(self.slots * q.load.longest * scale for q, scale in self._long)

    @property
    def scales(self) -> Mapping[str, float]:
        """What the work of each query's tasks counts, by the query's name."""
        return {query.name: scale for query, scale in zip(self._queries, self._scales, strict=True)}

    def above(self, mark: float) -> bool:
        """Whether the mean or the busiest executor is above ``mark``."""
        return max(self.mean, self.busiest) > mark * (1 + SLACK)

    def _even_at_most(self, part: int, nodes: int, *, contiguous: bool) -> float:
        """Return a bound on what :meth:`even` returns (Graham 1969)."""
        if part == 0 and contiguous:
            return self.tasks / nodes + self.heaviest
        if part == 0:
            return most_of_even_spread(self._sizes, nodes)
        query, scale = self._long[part - 1]
        return (query.load.work / nodes + self.slots * query.load.longest) * scale

    def even(self, part: int, nodes: int, observed: Observed) -> float:
        """Return what a part of :attr:`each` is of stateful tasks that are spread evenly."""
        return self._even_part(part, nodes, contiguous=observed.bounds.contiguous)

    def fits(self, nodes: int, observed: Observed, most: Sequence[float]) -> bool:
        """Whether none of an even spread is above its limit; O(tasks) where bounds do not say."""
        contiguous = observed.bounds.contiguous
        return all(
            self._even_at_most(part, nodes, contiguous=contiguous) <= limit
            or self._even_part(part, nodes, contiguous=contiguous) <= limit
            for part, limit in enumerate(most)
        )

    def _even_part(self, part: int, nodes: int, *, contiguous: bool) -> float:
        if part == 0:
            return even_max_load(self._each, nodes, contiguous=contiguous)
        query, scale = self._long[part - 1]
        stages = query.load.stages.values()
        works = [[task.work * scale for task in tasks.values()] for tasks in stages]
        parts = [even_max_load(work, nodes, contiguous=contiguous) for work in works]
        return sum(map(max, parts, (self.slots * max(work) for work in works)))

    @property
    def limits(self) -> str:
        """What no number of executors changes, in brackets; empty where there is no such thing."""
        parts = []
        if self.limited:
            each = ", ".join(
                f"{query.name} gets at most {query.load.limit_rows} rows a trigger"
                for query in self.limited
            )
            parts.append(f"{each}, fewer than are asked for: executors get no more")
        parts += [
            f"the heaviest tasks of {query.name} allow {_bearable(query):.2f} times its rows, "
            "fewer than are asked for, on any number of executors"
            for query in self.saturated
        ]
        return f" ({'; '.join(parts)})" if parts else ""

    @cached_property
    def _sizes(self) -> list[tuple[float, float]]:
        """Classes of tasks by what they count, the heaviest first: the most of one, and the sum."""
        sizes: dict[int, float] = {}
        for query, scale in zip(self._queries, self._scales, strict=True):
            shift = math.log(scale, SIZE_STEP) if scale > 0 else 0.0
            for size, work in query.load.sizes.items():
                at_most = math.ceil(size + shift)
                sizes[at_most] = sizes.get(at_most, 0.0) + work * scale
        return [
            (min(SIZE_STEP**size, self.heaviest), sizes[size])
            for size in sorted(sizes, reverse=True)
        ]

    @cached_property
    def _each(self) -> list[float]:
        return [
            task.work * scale
            for query, scale in zip(self._queries, self._scales, strict=True)
            for task in query.load.tasks.values()
        ]


def most_of_even_spread(sizes: Iterable[tuple[float, float]], nodes: int) -> float:
    """Return a bound on the fullest node where each task, the heaviest first, goes where least is.

    ``sizes``: classes of tasks, the heaviest first: the most of one, and their sum. Where a task is
    put there is no more than the mean of those before it (Graham 1969), so the fullest node has no
    more than that and the task it got last.
    """
    before = fullest = 0.0
    for most, work in sizes:
        before += work
        fullest = max(fullest, before / nodes + min(most, work))
    return fullest


def _are_many(queries: Collection[Query], executors: Sequence[Executor]) -> bool:
    return len(executors) * len(queries) >= _MANY


def _held(
    queries: Collection[Query], scales: Sequence[float], observed: Observed
) -> dict[str, float]:
    """Return what the stateful tasks on each executor count. O(queries * executors)."""
    executors = observed.executors
    if not _are_many(queries, executors):
        held = dict.fromkeys((executor.id for executor in executors), 0.0)
        for query, scale in zip(queries, scales, strict=True):
            for executor, work in query.load.held.items():
                if executor in held:
                    held[executor] += work * scale
        return held
    pairs = zip(queries, scales, strict=True)
    parts = [query.load.held_on(executors).work * scale for query, scale in pairs]
    total = sum(parts[1:], start=parts[0]).tolist()
    return dict(zip((executor.id for executor in executors), total, strict=True))


def demand(query: Query, catch_up_s: float, grown: float = 1.0) -> float:
    """Return the work asked for over the work done, with a backlog worked off in ``catch_up_s``.

    ``grown``: where all that is asked for grows by this factor. Where the source limits the
    rows of a batch and batches have a trigger, never more than that gives: no number of executors
    works off what they do not get.
    """
    asked, most = grown * _asked(query, catch_up_s), _most(query)
    return asked if most is None else min(asked, most)


def _asked(query: Query, catch_up_s: float) -> float:
    load = query.load
    arrivals_per_s = load.rows_per_s if load.realtime else load.arrivals_per_s
    if not load.rows_per_s or arrivals_per_s is None or load.backlog is None:
        return 1.0
    waiting_anyway = arrivals_per_s * (load.interval_ms or 0.0) / 1000
    late = max(0.0, load.backlog - waiting_anyway)
    return max(1.0, (arrivals_per_s + late / catch_up_s) / load.rows_per_s)


def _most(query: Query) -> float | None:
    """Return the most work over the work done that the source gives; ``None``: as much as waits."""
    load = query.load
    if load.limit_rows is None or query.trigger_ms is None or not load.rows_per_s:
        return None
    return max(1.0, 1000 * load.limit_rows / query.trigger_ms / load.rows_per_s)


def _bearable(query: Query) -> float:
    """Return how much more work the heaviest tasks of a query allow, over the work done.

    A batch is never shorter than the heaviest task of each of its stages, one after another.
    """
    longest = query.load.longest
    return max(1.0, 1 / longest) if longest > 0 else math.inf


def _limits(query: Query, catch_up_s: float) -> bool:
    most = _most(query)
    return most is not None and _asked(query, catch_up_s) > most * (1 + SLACK)


def _usable_share(query: Query) -> float:
    if query.trigger_ms is None or query.load.overhead_ms is None:
        return 1.0
    return max(_LEAST_USABLE, 1 - query.load.overhead_ms / query.trigger_ms)


def _has_length(query: Query, slots: float) -> bool:
    """Whether its stages may take longer than the executor with most of its work."""
    stages = query.load.held_by_stage
    return len(stages) > 1 or (len(stages) == 1 and slots > 1)


def _length(query: Query, sizes: Mapping[str, float], slots: float, *, alike: bool) -> float:
    """Return the sum over a query's stages of the most work that an executor has for its size.

    A stage takes at least its longest task, which uses one of the ``slots`` of an executor.
    ``alike``: it has work on executors of one size alone.
    """
    load = query.load
    if alike:
        fullest: Sequence[float] = load.fullest_by_stage
    else:
        fullest = [
            max((held[each] / sizes[each] for each in sizes.keys() & held.keys()), default=0.0)
            for held in load.held_by_stage
        ]
    longest = (slots * work for work in load.longest_by_stage)
    return sum(map(max, fullest, longest))


def _outside(query: Query, executors: int) -> float:
    return sum(query.load.outside.values()) / executors
