"""What state stores use of memory, and how many executors that takes.

State stores keep their memory outside of the heap. Where the limit of the containers is known, they
may use what it leaves next to the heap. The stores of all executors, spread evenly, need as many
executors as it takes to keep each below nine tenths of that. Stores grow until they write to disk,
so executors are given back only where the rest would keep below seven tenths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from elastream.core.application import Query
from elastream.model.observation import Executor, ExecutorMemory

NEAR: Final = 0.9
"""From this share of what it may use on a process is in danger of being ended."""
_CALM: Final = 0.7
"""Up to this share of it the stores of fewer executors may use."""


@dataclass(frozen=True, slots=True)
class StoreMemory:
    """What the stores of all executors use, and what those of one executor may use; bytes."""

    used: int
    room: int
    alive: int
    """The executors that there are."""

    @property
    def most(self) -> float:
        """The most that those of one executor shall use."""
        return NEAR * self.room

    @property
    def executors(self) -> int:
        """How many executors it takes, not fewer than there are if fewer would be nearly full."""
        least = ceil(self.used / self.most)
        return max(least, min(self.alive, ceil(self.used / (_CALM * self.room))))


def store_memory(
    executors: Iterable[Executor],
    memory: Mapping[str, ExecutorMemory],
    queries: Iterable[Query],
) -> StoreMemory | None:
    """Return it; ``None`` unless the limits of all containers are known, and of their heaps.

    The stores of an idle query are not counted: they are in the checkpoint too. ``None`` also where
    stores report more than a container may use at all, as where each reports what all share.
    O(tasks).
    """
    executors = tuple(executors)
    rooms = [room_next_to_heap(memory.get(each.id)) for each in executors]
    known = [room for room in rooms if room is not None]
    if not known or len(known) < len(rooms):
        return None
    held: dict[str, int] = {}
    for query in queries:
        if not query.idle:
            for task, load in query.load.tasks.items():
                executor = query.where(task)
                held[executor] = held.get(executor, 0) + load.store_memory_bytes
    if any(held.get(each.id, 0) > (memory[each.id].limit or 0) for each in executors):
        return None
    return StoreMemory(sum(held.values()), min(known), len(known))


def room_next_to_heap(memory: ExecutorMemory | None) -> int | None:
    """Return what a container leaves next to the heap; ``None`` where that is not known."""
    if memory is None or memory.limit is None or memory.heap_limit is None:
        return None
    room = memory.limit - memory.heap_limit
    return room if room > 0 else None
