"""What lies between hosts: a switch whose ways can be long, narrow or cut.

Pure: frames and the time go in, frames come out when they are due. A frame goes through two things,
one after the other::

    the way between the two hosts  ──  the link to the receiver
    (a delay of its own for each pair)  (this many bytes a second)

Who is where is learnt from the senders of frames, as switches do; what goes to no one known goes to
all. The link to a host holds back what it cannot carry at once, up to a bound, and drops what comes
on top, so that senders notice. What a host itself sends the kernel holds back on the host, as a
network card does (:mod:`~elastream_lab.hosts.namespaces`).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

_ADDRESS: Final = 6
_QUEUE_BYTES: Final = 256 << 10
"""What a link holds back at least: a few of the largest frames."""
_QUEUE_S: Final = 0.1
"""And what it carries in so long, where that is more."""


class Departure(NamedTuple):
    """A frame that is due."""

    due_s: float
    port: int
    frame: bytes


class Link:
    """The link from the switch to a host."""

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None
        """``None``: no limit."""
        self._free_s = 0.0
        """When all that was given so far has gone through."""

    def through_s(self, now_s: float, size: int) -> float | None:
        """Return when this many bytes have gone through; ``None`` where too many wait already."""
        if self.bytes_per_s is None:
            return now_s
        begins_s = max(self._free_s, now_s)
        room = max(_QUEUE_BYTES, _QUEUE_S * self.bytes_per_s)
        if (begins_s - now_s) * self.bytes_per_s + size > room:
            return None
        self._free_s = begins_s + size / self.bytes_per_s
        return self._free_s


class Switch:
    """Joins this many hosts, each at a port. ``skip``: bytes before the addresses of a frame."""

    def __init__(self, ports: int, *, skip: int = 0) -> None:
        self._ports = range(ports)
        self._to = slice(skip, skip + _ADDRESS)
        self._from = slice(skip + _ADDRESS, skip + 2 * _ADDRESS)
        self._skip = skip
        self._port_of: dict[bytes, int] = {}
        self._delays_s: dict[tuple[int, int], float] = {}
        self._links = [Link() for _ in self._ports]
        self._cut: set[int] = set()
        self._waiting: list[tuple[float, int, bool, int, int, bytes]] = []
        """When due, the order of arrival, whether the link is behind it, from, to, frame."""
        self._number = count()
        self.dropped = 0
        """Frames for which a link had no room, or that a cut link did not carry."""

    def delay(self, one: int, other: int, seconds: float) -> None:
        """Let every frame between two ports take so long, either way."""
        self._delays_s[one, other] = self._delays_s[other, one] = seconds

    def limit(self, port: int, bytes_per_s: float | None) -> None:
        """Let the link to a port carry so much a second; ``None``: all."""
        self._links[port].bytes_per_s = bytes_per_s

    def cut(self, port: int) -> None:
        """Let nothing through to a port or from it; what is under way is lost. Repeatable."""
        self._cut.add(port)

    def mend(self, port: int) -> None:
        """Let frames through again. Repeatable."""
        self._cut.discard(port)

    @property
    def next_s(self) -> float | None:
        """When something is due next; ``None`` where nothing waits."""
        return self._waiting[0][0] if self._waiting else None

    def accept(self, now_s: float, port: int, frame: bytes) -> None:
        """Take in a frame that a host has sent."""
        self._port_of[frame[self._from]] = port
        if port in self._cut:
            self.dropped += 1
            return
        receiver = self._port_of.get(frame[self._to])
        for to in self._ports if receiver is None else (receiver,):
            if to != port:
                there_s = now_s + self._delays_s.get((port, to), 0.0)
                heappush(self._waiting, (there_s, next(self._number), False, port, to, frame))

    def departures(self, now_s: float) -> Iterator[Departure]:
        """Give every frame that is due by now, in order."""
        while self._waiting and self._waiting[0][0] <= now_s:
            due_s, _, received, port, to, frame = heappop(self._waiting)
            if to in self._cut or port in self._cut:
                self.dropped += 1
                continue
            link = self._links[to]
            if received or link.bytes_per_s is None:
                yield Departure(due_s, to, frame)
                continue
            through_s = link.through_s(due_s, len(frame) - self._skip)
            if through_s is None:
                self.dropped += 1
            else:
                heappush(self._waiting, (through_s, next(self._number), True, port, to, frame))
