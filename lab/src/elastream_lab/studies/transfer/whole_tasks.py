"""How long state travels that goes in whole tasks, each as soon as both its ends are free.

So the loop has copies sent from executor to executor, in the order of the phases. Cost: O(tasks)
for each that ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Final

from elastream.model.plan import Move
from elastream.placement.transfer.forecast import tasks_in_order, timed_phases

_TOGETHER: Final = 1 + 1e-9
"""Transfers that end so near each other end at once."""
Volume = tuple[Hashable, Hashable, float]
"""Source, target, bytes."""


def in_phase_order(volumes: Sequence[Volume]) -> list[int]:
    """Return the places of the volumes in the order in which the loop has them sent."""
    names: dict[Hashable, int] = {}
    moves = [
        Move(
            place, names.setdefault(source, len(names)), names.setdefault(target, len(names)), size
        )
        for place, (source, target, size) in enumerate(volumes)
    ]
    return tasks_in_order(timed_phases(moves, 1, max(1, len(names))))


def in_turn_s(volumes: Sequence[Volume], bytes_per_s: float) -> float:
    """Return when the last of the volumes arrives, in the phases' order."""
    return whole_tasks_s([volumes[place] for place in in_phase_order(volumes)], bytes_per_s)


def whole_tasks_s(volumes: Sequence[tuple[Hashable, Hashable, float]], bytes_per_s: float) -> float:
    """Return when the last of the volumes arrives if each starts once both its links are free."""
    leaving: defaultdict[Hashable, dict[int, None]] = defaultdict(dict)
    coming: defaultdict[Hashable, dict[int, None]] = defaultdict(dict)
    for index, (source, target, _) in enumerate(volumes):
        leaving[source][index] = coming[target][index] = None
    sending: set[Hashable] = set()
    receiving: set[Hashable] = set()
    running: list[tuple[float, int]] = []

    def start(waiting: Iterable[int], now: float) -> None:
        for index in waiting:
            source, target, size = volumes[index]
            if source not in sending and target not in receiving:
                sending.add(source)
                receiving.add(target)
                heappush(running, (now + size / bytes_per_s, index))
                del leaving[source][index], coming[target][index]

    start(range(len(volumes)), 0)
    now = 0.0
    while running:
        now = running[0][0]
        free: set[int] = set()
        while running and running[0][0] <= now * _TOGETHER:
            source, target, _ = volumes[heappop(running)[1]]
            sending.remove(source)
            receiving.remove(target)
            free |= leaving[source].keys() | coming[target].keys()
        start(sorted(free), now)
    return now
