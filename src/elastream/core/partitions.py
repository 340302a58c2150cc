"""Too few partitions: what neither more executors nor another placement can mend.

A key's state is in one partition, and a partition is worked on by one core at a time. So a query of
m partitions keeps at most m slots busy with its state, and a partition that needs more than what a
core bears (the goal's high mark) falls behind wherever it is:

- *bottleneck*: the heaviest task needs ``w`` slots, above the mark. With k times as many partitions
  each has ``w / k`` if its keys are alike; ``k = ceil(w / target)`` is enough.
- *too few*: the executors have more slots than all queries have partitions. The least multiple of
  m that the slots do not exceed is enough.

A multiple, as Spark hashes a key modulo the number of partitions: every partition is then split in
k. Which keys a partition has is not known. If one key alone is hot, no number of partitions helps;
that shows after one repartition, when the heaviest task has as large a part of the work as before.
Nor does it help an operator without a key, which has one task. O(m) a batch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from elastream.core.application import Observed, Query
from elastream.core.usage import demand
from elastream.model.checks import Number
from elastream.model.observation import TaskId
from elastream.model.words import pluralize

DEFAULT_MARKS: Final = (0.7, 0.8)
"""What a core should do, and bears, where the goal has no marks: shares of its time."""
_HOT: Final = 0.75
"""A heaviest task that kept so much of its part of the work was not split: it is one hot key."""
_SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Shortage:
    """A query that has too few partitions."""

    query: str
    kind: Literal["too few", "bottleneck"]
    partitions: int
    """How many it has."""
    enough: int | None
    """How many would be enough; ``None`` where no number is."""
    reason: str
    """One sentence."""
    figures: Mapping[str, Number]

    def differs(self, other: Shortage | None) -> bool:
        """Whether it is worth saying again: another kind, or more partitions than said."""
        if other is None or (self.kind, self.partitions) != (other.kind, other.partitions):
            return True
        if self.enough is None or other.enough is None:
            return self.enough is not other.enough
        return self.enough > other.enough


@dataclass(frozen=True, slots=True)
class ShortageWatch:
    """What was seen of a query's partitions, batch after batch."""

    seen: Shortage | None = None
    rounds: int = 0
    """For how many batches in a row a shortage of this kind was seen, or none."""
    said: Shortage | None = None
    """What was logged last; ``None`` where all was well then."""

    def saw(self, seen: Shortage | None) -> ShortageWatch:
        """Return the watch after another batch."""
        same = (self.seen and self.seen.kind) == (seen and seen.kind)
        return ShortageWatch(seen, self.rounds + 1 if same else 1, self.said)


@dataclass(frozen=True, slots=True)
class Repartitioning:
    """The last change of a query's number of partitions by the loop."""

    before: int
    partitions: int
    share: float
    """Part of the query's work that its heaviest task had before."""
    began_ms: int
    """When its query was asked to stop."""
    spent_s: Mapping[str, float] = field(default_factory=dict)
    """Of the pause, by what it was spent on."""
    paused_s: float | None = None
    """From there to the end of the first batch after; ``None`` while none has ended."""


def find_shortage(
    observed: Observed,
    query: Query,
    *,
    target: float,
    mark: float,
    last: Repartitioning | None = None,
) -> Shortage | None:
    """Return the shortage of partitions of a query; ``None`` where there are enough.

    ``target`` and ``mark``: the part of its time that a core should work, and bears. ``last``: what
    the loop has done about it before. A query whose tasks were not all seen has none.
    """
    load = query.load
    if not load.measured or query.fewer_tasks is not None or len(load.tasks) < query.tasks:
        return None
    counts = Counter(task.operator for task in load.tasks)
    partitions = max(counts.values())
    task, heaviest = max(load.tasks.items(), key=lambda item: item[1].work)
    needed = heaviest.work * demand(query, math.inf)
    if needed <= mark * (1 + _SLACK):
        return _too_few(observed, query, partitions)
    figures: dict[str, Number] = {
        "partitions": partitions,
        "partition": task.partition,
        "heaviest": round(needed, 4),
        "mark": round(mark, 4),
    }
    enough = None
    if counts[task.operator] == 1 < partitions:
        why = "its operator has no key, so that neither executors nor more partitions help"
    elif last is not None and _is_hot(last, partitions, heaviest.work / load.work):
        why = "more partitions have not split it, so that one key is hot; more do not help"
    else:
        enough = figures["enough"] = partitions * max(2, math.ceil(needed / target))
        why = (
            f"{enough} partitions in place of {partitions} would do if its keys are alike; "
            f"not if one key is hot, which is not known"
        )
    needs = f"partition {task.partition} alone needs {needed:.2f} of a core, which bears {mark:.2f}"
    return Shortage(query.name, "bottleneck", partitions, enough, f"{needs}: {why}", figures)


def _too_few(observed: Observed, query: Query, partitions: int) -> Shortage | None:
    """Return the shortage where slots are left without state wherever tasks are."""
    slots = sum(executor.slots for executor in observed.executors)
    others = [each for each in observed.queries.values() if each.name != query.name]
    together = partitions + sum(len(each.load.tasks) or each.tasks for each in others)
    busiest = all(each.load.work <= query.load.work for each in others)
    if slots <= together or not busiest:
        return None
    enough = partitions * math.ceil(slots / partitions)
    figures: dict[str, Number] = {"partitions": partitions, "slots": slots, "enough": enough}
    idle = f"{slots - together} of {pluralize(slots, 'slot')} can hold none of its state"
    why = f"{pluralize(partitions, 'partition')}, so that {idle}: {enough} partitions would do"
    if partitions == 1:
        why += ", unless it has no key: then one is all there can be"
    return Shortage(query.name, "too few", partitions, enough, why, figures)


def resumed_places(observed: Observed, query: Query, partitions: int) -> dict[TaskId, str]:
    """Return where the tasks of a query shall be when it goes on with this many partitions.

    All of its state is loaded anew, so none has to stay where it is: tasks go one by one, the
    heaviest first, to the executor that is then least busy (Graham 1969). A task is expected to
    cost its part of the one it comes from.
    """
    if not observed.executors:
        return {}
    slots = {executor.id: executor.slots for executor in observed.executors}
    held = {executor: (observed.outside(executor), 0) for executor in slots}
    for other in observed.queries.values():
        for executor, work in other.load.held.items():
            if other.name != query.name and executor in held:
                held[executor] = (held[executor][0] + work, held[executor][1])
    places: dict[TaskId, str] = {}
    expected = _expected_work(query, partitions)
    for task in sorted(expected, key=lambda each: -expected[each]):
        work = expected[task]
        chosen = min(held, key=lambda each: ((held[each][0] + work) / slots[each], held[each][1]))
        places[task] = chosen
        held[chosen] = (held[chosen][0] + work, held[chosen][1] + 1)
    return places


def _expected_work(query: Query, partitions: int) -> dict[TaskId, float]:
    tasks = query.load.tasks
    counts = Counter(task.operator for task in tasks)
    before = max(counts.values(), default=0)
    expected: dict[TaskId, float] = {}
    for task, load in tasks.items():
        if counts[task.operator] < before:  # it has no key
            expected[task] = load.work
            continue
        for partition in range(task.partition, partitions, before):
            split = TaskId(query.name, task.operator, partition)
            expected[split] = load.work * before / partitions
    return expected


def _is_hot(last: Repartitioning, partitions: int, share: float) -> bool:
    return partitions == last.partitions > last.before and share >= _HOT * last.share
