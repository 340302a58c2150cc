"""Which executor a copy of a task's state goes to: the one that holds the least for others.

An executor on another host than the task's comes before one on the same, and a spare before one
that is at work. Choosing for all m tasks on n executors is done on every event, under the loop's
lock: O(log n) a task. The heaps hold what executors held when they were last looked at; that only
grows, so that an entry is brought up to date when it is first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby

from elastream.model.observation import Executor

_Entry = tuple[float, int, str]
"""Bytes held, place among the executors, id."""


class StandbyPlaces:
    """The executors, and what they hold for others so far."""

    def __init__(self, executors: Sequence[Executor], spare_ids: Collection[str]) -> None:
        self._hosts = {each.id: each.host for each in executors}
        self._several = len(set(self._hosts.values())) > 1
        self._held = dict.fromkeys(self._hosts, 0.0)
        self._spare_ids = spare_ids
        spares = [each for each in executors if each.id in spare_ids]
        self._spares = _LeastHeld(spares, self._held)
        self._all = _LeastHeld(executors, self._held)

    def hold(self, executor: str, size: float) -> None:
        """Note that a copy of so many bytes goes there."""
        self._held[executor] += size

    def best(self, own: str) -> str | None:
        """Return where a copy of a task on ``own`` goes; ``None`` where there is no other."""
        host = self._hosts.get(own)
        if self._several or host is None:
            return self._spares.off(host) or self._all.off(host)
        return self._spares.other_than(own, host) or self._all.other_than(own, host)

    def is_as_good(self, executor: str, best: str, own: str) -> bool:
        """Whether a copy that is there may stay: it is no worse a place by host and spare."""
        if executor == own or executor not in self._hosts:
            return False
        if self._several and self._hosts[executor] == self._hosts.get(own):
            return False
        return executor in self._spare_ids or best not in self._spare_ids


class _LeastHeld:
    """Some executors, by host, those first that hold the least; of equals the oldest."""

    def __init__(self, executors: Sequence[Executor], held: dict[str, float]) -> None:
        self._held = held
        self._hosts = {each.id: each.host for each in executors}
        entries = [(0.0, place, each.id) for place, each in enumerate(executors)]
        entries.sort(key=lambda entry: self._hosts[entry[2]])
        self._on_host: dict[str, list[_Entry]] = {
            host: list(group) for host, group in groupby(entries, lambda e: self._hosts[e[2]])
        }
        self._first: list[_Entry] = [heap[0] for heap in self._on_host.values()]
        """Of each host the first."""
        heapify(self._first)

    def off(self, host: str | None) -> str | None:
        """Return the one that holds the least on any other host."""
        own: _Entry | None = None
        found = None
        while self._first and found is None:
            entry = self._first[0]
            there = self._hosts[entry[2]]
            now = self._first_on(there)
            if entry != now:
                heapreplace(self._first, now)
            elif there == host:
                own = heappop(self._first)
            else:
                found = entry[2]
        if own is not None:
            heappush(self._first, own)
        return found

    def other_than(self, own: str, host: str) -> str | None:
        """Return the one on a host that holds the least, but for ``own``."""
        heap = self._on_host.get(host)
        if heap is None:
            return None
        entry = self._first_on(host)
        if entry[2] != own:
            return entry[2]
        heappop(heap)
        found = self._first_on(host)[2] if heap else None
        heappush(heap, entry)
        return found

    def _first_on(self, host: str) -> _Entry:
        heap = self._on_host[host]
        while heap[0][0] != self._held[heap[0][2]]:
            _, place, executor = heap[0]
            heapreplace(heap, (self._held[executor], place, executor))
        return heap[0]
