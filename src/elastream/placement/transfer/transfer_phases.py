"""Transfer phases: move all state in the least time, each node sending and receiving one at a time.

Papers 000 (section 5.1) and 001 (section 3, "Optimizations"), after Gonzalez and Sahni, "Open shop
scheduling to minimize finish time", JACM 23(4), 1976. Model: every node sends to one node and
receives from one node at a time, all at the same rate, and a transfer may pause and go on later. No
schedule is shorter than ``T = max over nodes of max(bytes out, bytes in)`` (:func:`least_length`),
and this one is exactly as long.

Method. A node is critical if what it still has to send (or to receive) equals the time left, T; its
slack is the difference. A phase matches senders with receivers and covers every critical node. A
pair with ``a`` bytes left whose ends have slack ``d`` or more may be in a phase of up to ``a + d``:
the transfer ends early and its nodes rest. A node not covered rests too, so a phase lasts at most
its slack. Then T falls by each phase's length and stays the bound. A phase that covers all critical
nodes always exists (Birkhoff; Gonzalez and Sahni).

The matching is perfect on a doubled graph. On the left are the senders and a shadow of every
receiver, on the right the receivers and a shadow of every sender. Each pair is an edge twice, once
between the nodes and once, reversed, between their shadows. The edge of a node to its own shadow
means that it rests. An edge's reach is the longest phase it can be in.

Cost: each phase uses up a pair of nodes or makes a node critical for good, so there are at most
``pairs + 2 nodes`` phases, each one matching in O(E sqrt(V)). To need far fewer, only edges whose
reach is at least a threshold are offered, and the threshold falls by a tenth where no matching is
found; the largest possible phase never grows. Departure from the papers, which keep every link
busy in every phase: a node with less than T to move rests.

Amounts are exact: whole bytes stay whole, floats are scaled to whole numbers and rounded once in
the result.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.model.checks import Number, count, non_negative
from elastream.model.errors import ProblemError
from elastream.model.plan import Move
from elastream.placement.matchings import most_pairs
from elastream.placement.whole_units import UnitArray, in_units, of_units, unit_array

Ints = NDArray[np.int64]
Volume = tuple[int, int, Number]
"""Source node, target node, bytes to move between them."""


@dataclass(frozen=True, slots=True)
class TaskPart:
    """A task's state, or the part of it that goes in one transfer."""

    task: int
    amount: Number
    """Bytes; less than the task's state if it is split over phases."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """The transfer from one node to another during one phase."""

    source: int
    target: int
    amount: Number
    """Bytes, at most the phase's length."""
    parts: tuple[TaskPart, ...] = ()
    """The tasks whose state it contains, in task order, if moves were given; sums to ``amount``."""


@dataclass(frozen=True, slots=True)
class TransferPhase:
    """Concurrent transfers; no node sends in two of them, none receives in two."""

    length: Number
    """Bytes a link can carry during the phase: its time at one byte per unit of time."""
    transfers: tuple[Transfer, ...]
    """In order of their source node."""


def least_length(moves: Iterable[Move | Volume]) -> Number:
    """Return a lower bound on any schedule: the most that any node sends or receives."""
    demand = _Demand.of(moves)
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    for (source, target), volume in demand.volumes().items():
        sent[source] += volume
        received[target] += volume
    longest = max((*sent.values(), *received.values()), default=0)
    return of_units(longest, demand.units_in_one)


def transfer_phases(moves: Iterable[Move | Volume]) -> tuple[TransferPhase, ...]:
    """Return phases that carry all ``moves`` in :func:`least_length` total.

    Tasks between the same two nodes are sent one after the other in task order. A task in transfer
    when a phase ends continues in the pair's next transfer: its state is split. Moves without bytes
    need no transfer and are in no phase.
    """
    demand = _Demand.of(moves)
    volumes = sorted(demand.volumes().items())
    pairs = [pair for pair, _ in volumes]
    return tuple(
        TransferPhase(
            of_units(length, demand.units_in_one),
            tuple(demand.take(pairs[index], units) for index, units in sorted(sent)),
        )
        for length, sent in _phases(pairs, [volume for _, volume in volumes])
    )


@dataclass(slots=True)
class _Demand:
    """Units still to be sent between each pair of nodes, task by task."""

    units_in_one: int
    parts: dict[tuple[int, int], deque[tuple[int | None, int]]]
    """Task (None if volumes were given) and units, in sending order."""

    @classmethod
    def of(cls, moves: Iterable[Move | Volume]) -> _Demand:
        checked = sorted(
            (_checked(index, move) for index, move in enumerate(moves)),
            key=lambda entry: -1 if entry[0] is None else entry[0],
        )
        units, units_in_one = in_units(size for *_, size in checked)
        demand = cls(units_in_one, {})
        for (task, source, target, _), size in zip(checked, units, strict=True):
            if size:
                demand.parts.setdefault((source, target), deque()).append((task, size))
        return demand

    def volumes(self) -> dict[tuple[int, int], int]:
        """Return the units of each pair of nodes."""
        return {pair: sum(units for _, units in parts) for pair, parts in self.parts.items()}

    def take(self, pair: tuple[int, int], units: int) -> Transfer:
        """Remove ``units`` from the front of a pair's tasks and return them as a transfer."""
        waiting, left = self.parts[pair], units
        parts: list[TaskPart] = []
        while left:
            task, size = waiting.popleft()
            if size > left:
                waiting.appendleft((task, size - left))
                size = left
            left -= size
            if task is not None:
                parts.append(TaskPart(task, of_units(size, self.units_in_one)))
        return Transfer(*pair, of_units(units, self.units_in_one), tuple(parts))


def _checked(index: int, move: Move | Volume) -> tuple[int | None, int, int, Number]:
    if isinstance(move, Move):
        task, source, target, size = move
    else:
        task, (source, target, size) = None, move
    source = count(f"moves[{index}].source", source)
    target = count(f"moves[{index}].target", target)
    if source == target:
        raise ProblemError(f"moves[{index}]", f"goes from node {source} to itself")
    return task, source, target, non_negative(f"moves[{index}].state", size)


def _phases(
    pairs: Sequence[tuple[int, int]], volumes: Sequence[int]
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield each phase as its length and the (index of the pair, units sent) in it.

    ``pairs`` are distinct (source, target), ascending; ``volumes`` are positive units.
    """
    links = _Links.between(pairs)
    left = unit_array(volumes, largest=2 * sum(volumes))
    to_send = _sums(links.sender, left, links.senders)
    to_receive = _sums(links.receiver, left, links.receivers)
    remaining = int(max(to_send.max(initial=0), to_receive.max(initial=0)))
    threshold = remaining
    while remaining:
        slack_out, slack_in = remaining - to_send, remaining - to_receive
        reach = left + np.minimum(slack_out[links.sender], slack_in[links.receiver])
        reach[left == 0] = 0
        reaches = np.concatenate([reach, reach, slack_out, slack_in])
        matched = links.matching(reaches >= threshold)
        if matched is None:
            threshold = _lowered(threshold, reaches)
            continue
        length = min(int(reaches[matched].min()), remaining)
        active = matched[matched < len(pairs)]
        sent = np.minimum(left[active], length)
        left[active] -= sent
        to_send[links.sender[active]] -= sent
        to_receive[links.receiver[active]] -= sent
        remaining -= length
        yield length, list(zip(active.tolist(), sent.tolist(), strict=True))


def _lowered(threshold: int, reaches: UnitArray) -> int:
    """Return the next reach to try, about a tenth lower; the lowest always suffices."""
    possible = reaches[reaches > 0]
    lower = possible[possible <= threshold - max(1, threshold // 10)]
    return int(lower.max() if lower.size else possible.min())


def _sums(index: Ints, values: UnitArray, length: int) -> UnitArray:
    sums = np.zeros(length, dtype=values.dtype)
    np.add.at(sums, index, values)
    return sums


@dataclass(frozen=True, slots=True)
class _Links:
    """The graph; edges are numbered: pairs, pairs between shadows, senders, receivers at rest."""

    senders: int
    receivers: int
    sender: Ints
    """Left end of each pair, counted among the senders."""
    receiver: Ints
    """Right end of each pair, counted among the receivers."""
    order: Ints
    """The edges by their left end."""
    left: Ints
    """Left end of each edge in ``order``."""
    right: Ints
    """Right end of each edge in ``order``."""

    @classmethod
    def between(cls, pairs: Sequence[tuple[int, int]]) -> _Links:
        names_out, sender = np.unique([source for source, _ in pairs], return_inverse=True)
        names_in, receiver = np.unique([target for _, target in pairs], return_inverse=True)
        senders, receivers = len(names_out), len(names_in)
        out, into = np.arange(senders), np.arange(receivers)
        left = np.concatenate([sender, senders + receiver, out, senders + into])
        right = np.concatenate([receiver, receivers + sender, receivers + out, into])
        order = np.argsort(left, kind="stable")
        return cls(senders, receivers, sender, receiver, order, left[order], right[order])

    def matching(self, offered: NDArray[np.bool_]) -> Ints | None:
        """Return the edges of a perfect matching that cover senders and receivers, or ``None``."""
        side = self.senders + self.receivers
        chosen = offered[self.order]
        left, right = self.left[chosen], self.right[chosen]
        starts = np.searchsorted(left, np.arange(side + 1))
        partner = most_pairs(starts, right, side)
        if (partner < 0).any():
            return None
        in_matching = partner[left] == right
        between_shadows = (left >= self.senders) & (right >= self.receivers)
        edges: Ints = self.order[chosen][in_matching & ~between_shadows]
        return edges
