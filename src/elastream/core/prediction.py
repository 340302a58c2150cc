"""What a placement brings: how long batches take under it, and how busy executors are.

By the batch model (:mod:`elastream.model.batch`), from what the last batches have shown. With a
fixed cost ``f`` and stages that take the share ``r`` of the stream's time,

- batches that read all that waits, as the source tells, take ``f + r T`` where that is within their
  trigger ``T``; else each begins when the one before has ended, and they take ``f / (1 - r)``;
- others are taken to read as many rows as now.

Fixed cost and the cost of a row are those of before the change was decided where those are less:
executors that start on the hosts of the driver and of other executors slow these down meanwhile.

Waiting for slots that others hold grows and falls with how busy the busiest executor is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from elastream.core.application import Observed, Query
from elastream.core.change import CalmCosts, Prediction
from elastream.model.batch import stage_length
from elastream.model.observation import TaskId

Places = Mapping[TaskId, str]
"""The executor of each task."""


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
    busiest, now = _busiest(observed, places, slots), busiest_now(observed)
    crowding = busiest / now if busiest and now else 1.0
    lengths = {
        name: _batch_ms(observed.queries[name], places, slots, before, crowding, calm.get(name))
        for name in concerned
    }
    known = {name: round(ms, 1) for name, ms in sorted(lengths.items()) if ms is not None}
    return Prediction(known, busiest)


def busiest_now(observed: Observed) -> float | None:
    """Return the share of its slots' time for which the busiest executor works now."""
    slots = {each.id: each.slots for each in observed.executors}
    if not slots or not any(query.load.measured for query in observed.queries.values()):
        return None
    held = dict.fromkeys(slots, 0.0)
    for task, load in observed.tasks():
        place = observed.where(task)
        if place in held:
            held[place] += observed.slots_busy(observed.queries[task.query], load.work)
    return max((held[each] + observed.outside(each)) / slots[each] for each in slots)


def _batch_ms(
    query: Query,
    places: Places,
    slots: Mapping[str, int],
    before: Mapping[str, int],
    crowding: float,
    calm: CalmCosts | None,
) -> float | None:
    load = query.load
    if not load.measured or load.interval_ms is None or load.overhead_ms is None or not slots:
        return None
    share = sum(
        stage_length(((places.get(task, each.executor), each.work) for task, each in stage), slots)
        for stage in (tasks.items() for tasks in load.stages.values())
    )
    worked = sum(slot for executor, slot in before.items() if executor in load.outside)
    longer = 1 / sum(slots.values()) - 1 / worked if worked else 0.0
    outside_ms = sum(load.outside.values()) * longer * load.interval_ms
    overhead_ms = load.overhead_ms
    if calm is not None:
        overhead_ms = min(overhead_ms, calm.overhead_ms)
        share *= min(1.0, calm.row_s * (load.rows_per_s or 0.0) / load.work) if load.work else 1.0
    fixed_ms = max(0.0, overhead_ms + outside_ms) + crowding * (load.waited_ms or 0.0)
    if load.arrivals_per_s is None or load.limit_rows is not None or not load.rows_per_s:
        return fixed_ms + share * load.interval_ms
    share *= load.arrivals_per_s / load.rows_per_s
    in_time_ms = fixed_ms + share * (query.trigger_ms or 0.0)
    if query.trigger_ms is not None and in_time_ms <= query.trigger_ms:
        return in_time_ms
    return fixed_ms / (1 - share) if share < 1 else None


def _busiest(observed: Observed, places: Places, slots: Mapping[str, int]) -> float | None:
    if not slots or not any(query.load.measured for query in observed.queries.values()):
        return None
    total = sum(slots.values())
    outside = sum(observed.outside(each.id) for each in observed.executors) / total
    held = dict.fromkeys(slots, 0.0)
    for task, load in observed.tasks():
        place = places.get(task) or observed.where(task)
        if place in held:
            held[place] += observed.slots_busy(observed.queries[task.query], load.work)
    return max(held[each] / slots[each] for each in slots) + outside
