"""What a placement brings: how long batches take under it, and how busy executors are.

By the batch model (:mod:`elastream.model.batch`), from what the last batches have shown. With a
fixed cost ``f`` and stages that take the share ``r`` of the stream's time,

- batches that read all that waits, as the source tells, take ``f + r T`` where that is within their
  trigger ``T``; else each begins when the one before has ended, and they take ``f / (1 - r)``;
- others are taken to read as many rows as now.

Tasks without state run on any free slot: their part of the fixed cost is their work over all slots.

How work is spread over tasks is smoothed; what a batch costs is the median of the last ones before
the change was decided. Batches in which code was compiled are no measure of those after it, nor
those that executors slowed down that started on the same hosts.

Waiting for slots that others hold grows and falls with how busy the busiest executor is. A query
whose batches follow one another keeps executors busier when its batches get shorter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from elastream.core.application import Observed, Query
from elastream.core.change import CalmCosts, Prediction
from elastream.core.load import BatchCost
from elastream.model.batch import stage_length
from elastream.model.observation import TaskId

Places = Mapping[TaskId, str]
"""The executor of each task."""
_FEWEST: Final = 3
"""The median of fewer batches says little."""


class _Batch(NamedTuple):
    """A batch as it is expected."""

    ms: float
    work: float
    """Slots that its stateful tasks keep busy, batch after batch."""


def calm_costs(recent: Sequence[BatchCost]) -> CalmCosts | None:
    """Return what a batch of a query costs, from its recent ones; ``None`` where that says little.

    O(batches).
    """
    read = [each for each in recent if each.rows and each.work_ms]
    if len(read) < _FEWEST:
        return None
    return CalmCosts(
        overhead_ms=median(each.overhead_ms for each in read),
        waited_ms=median(each.waited_ms for each in read),
        row_ms=median(each.work_ms / each.rows for each in read),
        rows=median(each.rows for each in read),
        outside_ms=median(each.outside_ms for each in read),
        outside_length_ms=median(each.outside_length_ms for each in read),
    )


def predict(
    observed: Observed,
    places: Places,
    executors: Collection[str],
    calm: Mapping[str, CalmCosts],
) -> Prediction:
    """Return what it is like when these executors hold the tasks as ``places`` says.

    Tasks that are not in it stay where they are. ``calm``: what queries cost before the change
    began, where known. O(tasks).
    """
    before = {each.id: each.slots for each in observed.executors}
    slots = {executor: number for executor, number in before.items() if executor in executors}
    concerned = {task.query for task, place in places.items() if place != observed.where(task)}
    busiest, now = _busiest(observed, places, slots, {}), busiest_now(observed, {})
    crowding = busiest / now if busiest and now else 1.0
    expected = {
        name: _batch(observed.queries[name], places, slots, before, crowding, calm.get(name))
        for name in sorted(concerned)
    }
    batches = {name: batch for name, batch in expected.items() if batch is not None}
    more = {
        name: batch.work / observed.queries[name].load.work
        for name, batch in batches.items()
        if observed.queries[name].load.work
    }
    lengths = {name: round(batch.ms, 1) for name, batch in batches.items()}
    return Prediction(lengths, _busiest(observed, places, slots, more))


def busiest_lately(observed: Observed) -> float | None:
    """Return the share of its slots' time for which the busiest executor has worked lately.

    By the recent batches of each query: smoothed figures still remember those before a change.
    """
    more = {}
    for name, query in observed.queries.items():
        calm, usual_ms = calm_costs(query.recent), query.usual_ms
        if calm is not None and usual_ms and query.load.work:
            work = calm.rows * calm.row_ms / max(usual_ms, query.trigger_ms or 0.0)
            more[name] = work / query.load.work
    return busiest_now(observed, more)


def busiest_now(observed: Observed, more: Mapping[str, float]) -> float | None:
    """Return how busy the busiest is now, with the work of queries multiplied by ``more``."""
    slots = {each.id: each.slots for each in observed.executors}
    if not slots or not any(query.load.measured for query in observed.queries.values()):
        return None
    held = dict.fromkeys(slots, 0.0)
    for name, query in observed.queries.items():
        factor = observed.slots_busy(query, more.get(name, 1.0))
        for place, work in _held(query, {}).items():
            if place in held:
                held[place] += work * factor
    return max((held[each] + observed.outside(each)) / slots[each] for each in slots)


def _batch(
    query: Query,
    places: Places,
    slots: Mapping[str, int],
    before: Mapping[str, int],
    crowding: float,
    calm: CalmCosts | None,
) -> _Batch | None:
    load, trigger_ms = query.load, query.trigger_ms or 0.0
    if not load.measured or load.interval_ms is None or load.overhead_ms is None or not slots:
        return None
    share = sum(
        stage_length(((places.get(task, each.executor), each.work) for task, each in stage), slots)
        for stage in (tasks.items() for tasks in load.stages.values())
    )
    length = share / load.work if load.work else 0.0
    if calm is None:
        rows = (load.rows_per_s or 0.0) * load.interval_ms / 1000 or 1.0
        row_ms = load.work * load.interval_ms / rows
        outside_ms = sum(load.outside.values()) * load.interval_ms
        worked = sum(slot for executor, slot in before.items() if executor in load.outside)
        length_ms = outside_ms / worked if worked else outside_ms / sum(slots.values())
        waited_ms = load.waited_ms or 0.0
        calm = CalmCosts(load.overhead_ms, waited_ms, row_ms, rows, outside_ms, length_ms)
    longer_ms = calm.outside_ms / sum(slots.values()) - calm.outside_length_ms
    fixed_ms = max(0.0, calm.overhead_ms + longer_ms) + crowding * calm.waited_ms
    if load.arrivals_per_s is None or load.limit_rows is not None or not load.rows_per_s:
        work_ms = calm.rows * calm.row_ms
        ms = fixed_ms + length * work_ms
        return _Batch(ms, work_ms / max(ms, trigger_ms, 1.0))
    work = calm.row_ms * load.arrivals_per_s / 1000
    share = length * work
    in_time_ms = fixed_ms + share * trigger_ms
    if in_time_ms <= trigger_ms:
        return _Batch(in_time_ms, work)
    return _Batch(fixed_ms / (1 - share), work) if share < 1 else None


def _busiest(
    observed: Observed, places: Places, slots: Mapping[str, int], more: Mapping[str, float]
) -> float | None:
    """Return how busy the busiest is, with the work of queries multiplied by ``more``."""
    if not slots or not any(query.load.measured for query in observed.queries.values()):
        return None
    total = sum(slots.values())
    outside = sum(observed.outside(each.id) for each in observed.executors) / total
    held = dict.fromkeys(slots, 0.0)
    for name, query in observed.queries.items():
        factor = observed.slots_busy(query, more.get(name, 1.0))
        for place, work in _held(query, places).items():
            if place in held:
                held[place] += work * factor
    return max(held[each] / slots[each] for each in slots) + outside


def _held(query: Query, places: Places) -> Mapping[str, float]:
    """Return the work of a query's tasks on each executor, some of them in other places."""
    if not places and not query.believed:
        return query.load.held
    held: dict[str, float] = {}
    for task, load in query.load.tasks.items():
        place = places.get(task) or query.where(task)
        held[place] = held.get(place, 0.0) + load.work
    return held
