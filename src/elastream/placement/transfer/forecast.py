"""Forecast of a migration: the order in which its state travels, and the time that takes.

Model. Every node has a link of ``bytes_per_s`` in and the same out, the papers' uplink and downlink
(000, section 5.1; 001, section 3). A plan is carried out in the mini-migrations that the core would
form (:mod:`~elastream.placement.transfer.mini_migrations`, limits for a whole batch), one after the
other; the state of each travels in phases (:mod:`~elastream.placement.transfer.transfer_phases`). A
transfer runs at the pace of the slower of its two links, so each of its bytes counts as the number
of bytes that the fastest link carries in that time.

Then a batch's transfers take ``max over nodes of max(seconds to send, seconds to receive)``, each
byte at the pace of its transfer. No schedule in which a node sends to one and receives from one at
a time is quicker; if all links are equal, no schedule at all. With unequal links a fast node could
do better by serving several slow ones at once. That is not modelled, nor is the cost of a transfer
besides its bytes. Cost: that of the mini-migrations and the phases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from elastream.model.checks import Number, abbreviate, non_negative, non_negatives
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Move, StepPlan
from elastream.placement.transfer.mini_migrations import mini_migrations
from elastream.placement.transfer.transfer_phases import Transfer, transfer_phases

_SLOWEST = 1e-100
"""Slower links are rejected: times would exceed the range of a float."""


@dataclass(frozen=True, slots=True)
class TimedPhase:
    """Concurrent transfers; no node sends in two of them, none receives in two."""

    seconds: float
    transfers: tuple[Transfer, ...]
    """In order of their source node; each may end before the phase does."""


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """The transfers of one mini-migration."""

    moves: tuple[Move, ...]
    """In task order; at least one."""
    phases: tuple[TimedPhase, ...]
    """In order; empty if the moves have no state."""

    @property
    def seconds(self) -> float:
        """Time for all of its state to travel."""
        return math.fsum(phase.seconds for phase in self.phases)


@dataclass(frozen=True, slots=True)
class Forecast:
    """How the state of a plan travels."""

    batches: tuple[BatchForecast, ...]
    """One after the other; empty if nothing moves."""

    @property
    def seconds(self) -> float:
        """Time that state travels in all batches together."""
        return math.fsum(batch.seconds for batch in self.batches)


def forecast(
    problem: StepProblem,
    plan: StepPlan,
    bytes_per_s: Number | Sequence[Number],
    *,
    moves_per_batch: int | None = None,
    bytes_per_batch: Number | None = None,
) -> Forecast:
    """Return the order in which the plan's state travels, and the time it takes.

    ``bytes_per_s`` is the capacity of every node's link, in and out, or a number for each node. The
    limits are those of a policy; without any all moves are made in one batch.
    """
    nodes = problem.nodes_after
    if moves_per_batch is None and bytes_per_batch is None:
        steps = [plan.moves] if plan.moves else []
    else:
        minis = mini_migrations(
            problem, plan, max_tasks=moves_per_batch, max_bytes=bytes_per_batch, per="batch"
        )
        steps = [step.moves for step in minis.steps]
    batches = (BatchForecast(moves, timed_phases(moves, bytes_per_s, nodes)) for moves in steps)
    return Forecast(tuple(batches))


def timed_phases(
    moves: Sequence[Move], bytes_per_s: Number | Sequence[Number], nodes: int
) -> tuple[TimedPhase, ...]:
    """Return the phases in which the state of these moves travels together, over such links."""
    return _Pace.of(bytes_per_s, nodes).phases(moves)


def tasks_in_order(phases: Iterable[TimedPhase]) -> list[int]:
    """Return tasks in the order in which phases first send a part of their state."""
    parts = (part for phase in phases for send in phase.transfers for part in send.parts)
    return list(dict.fromkeys(part.task for part in parts))


@dataclass(frozen=True, slots=True)
class _Pace:
    """Speeds of the links."""

    rates: tuple[Fraction, ...]
    """Bytes per second of each node's link."""
    fastest: Fraction

    @classmethod
    def of(cls, bytes_per_s: Number | Sequence[Number], nodes: int) -> _Pace:
        if isinstance(bytes_per_s, Sequence):
            given = non_negatives("bytes_per_s", bytes_per_s, length=nodes)
            rates = tuple(_rate(f"bytes_per_s[{i}]", number) for i, number in enumerate(given))
        else:
            rates = (_rate("bytes_per_s", bytes_per_s),) * nodes
        return cls(rates, max(rates))

    def phases(self, moves: Iterable[Move]) -> tuple[TimedPhase, ...]:
        """Return the phases of the moves, in minimum time."""
        stretched = [
            move._replace(state=_product(move.state, self._stretch(move.source, move.target)))
            for move in moves
        ]
        return tuple(
            TimedPhase(
                float(Fraction(phase.length) / self.fastest),
                tuple(self._in_bytes(transfer) for transfer in phase.transfers),
            )
            for phase in transfer_phases(stretched)
        )

    def _stretch(self, source: int, target: int) -> Fraction:
        """Return how much longer a byte takes between the two than on the fastest link."""
        return self.fastest / min(self.rates[source], self.rates[target])

    def _in_bytes(self, transfer: Transfer) -> Transfer:
        shrink = 1 / self._stretch(transfer.source, transfer.target)
        parts = (replace(part, amount=_product(part.amount, shrink)) for part in transfer.parts)
        return replace(transfer, amount=_product(transfer.amount, shrink), parts=tuple(parts))


def _rate(field: str, value: object) -> Fraction:
    rate = non_negative(field, value)
    if rate < _SLOWEST:
        raise ProblemError(field, f"{abbreviate(value)} is not positive, or below {_SLOWEST:g}")
    return Fraction(rate)


def _product(number: Number, factor: Fraction) -> Number:
    """Return the product: whole numbers stay whole if possible, others are rounded once."""
    product = Fraction(number) * factor
    is_whole = isinstance(number, int) and product.denominator == 1
    return int(product) if is_whole else float(product)
