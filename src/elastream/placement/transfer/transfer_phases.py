"""Transfer phases: move all state in the least time, each node sending and receiving one at a time.

Papers 000 (section 5.1) and 001 (section 3, "Optimizations") schedule the transfers of a
migration "in several phases" that keep up- and downlinks busy, after Gonzalez and Sahni, "Open
shop scheduling to minimize finish time", JACM 23(4), 1976. Model: every node sends to one node
and receives from one node at a time, all at the same rate, and a transfer may pause and go on
later. No schedule is shorter than ``T = max over nodes of max(bytes out, bytes in)``
(:func:`least_length`), and this one is exactly as long.

Method. A node is critical if what it still has to send (or to receive) equals the time left, T;
its slack is the difference. A phase is a matching of senders with receivers that covers every
critical node. An edge with ``a`` bytes left whose ends have slack at least ``d`` may be in a phase
of up to ``a + d``: the transfer ends early and its nodes rest. A node not covered rests too, so a
phase lasts at most its slack. Under these rules T falls by each phase's length and stays the
bound, and a phase that covers all critical nodes always exists: with slacks as idle transfers and
a transposed copy all rows and columns sum to T, and such a matrix has a perfect matching on its
positive entries (Birkhoff; Gonzalez and Sahni).

Each phase uses up a pair of nodes or makes a node critical for good, so there are at most
``pairs + 2 nodes`` phases, each one matching in O(E sqrt(V)) (Hopcroft and Karp, in SciPy). To
need far fewer, only edges and slacks of at least a threshold are offered to the matching, and the
threshold falls by a tenth where none is found. The largest possible phase never grows, so it
never rises again. The papers' source keeps every link busy in every phase; where a node has
less than T to move that is impossible, and we let it rest.

Amounts are exact: whole bytes stay whole, floats are scaled to whole numbers and rounded once in
the result.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from elastream.model.checks import Number, count, non_negative
from elastream.model.errors import ProblemError
from elastream.model.plan import Move
from elastream.placement.transfer.phase_matchings import matched_phases
from elastream.placement.whole_units import in_units, of_units

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
        for length, sent in matched_phases(pairs, [volume for _, volume in volumes])
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
