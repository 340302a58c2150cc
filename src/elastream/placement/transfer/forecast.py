"""Forecast of a migration: in which order its state travels, and how long that takes.

Model. Every node has a link of ``bytes_per_s`` in and as much out, the papers' uplink and downlink
(000, section 5.1; 001, section 3). A plan goes in the mini-migrations that the loop would make of
it (:mod:`~elastream.placement.transfer.mini_migrations`, limits for a whole batch), one after the
other; the state of each goes in phases (:mod:`~elastream.placement.transfer.transfer_phases`). A
transfer runs at the pace of the slower of its two links, so a byte of it counts as many bytes of
the fastest link as it takes that long to carry.

Then a batch's transfers take ``max over nodes of max(seconds to send, seconds to receive)``, each
byte at the pace of its transfer. No schedule in which nodes send to one and receive from one at a
time is quicker; where all links are alike, no schedule at all. With unlike links a fast node could
do better by serving several slow ones at once. That is not modelled, nor is what a transfer costs
besides its bytes. Cost: that of the mini-migrations and the phases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from elastream.model.checks import Number, amount, amounts, shown
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Move, StepPlan
from elastream.placement.transfer.mini_migrations import mini_migrations
from elastream.placement.transfer.transfer_phases import Transfer, transfer_phases

__all__ = ["BatchForecast", "Forecast", "TimedPhase", "forecast"]

_SLOWEST = 1e-100
"""Links below this are refused: times would leave the range of a float."""


@dataclass(frozen=True, slots=True)
class TimedPhase:
    """Transfers that run side by side; no node sends in two of them, none receives in two."""

    seconds: float
    transfers: tuple[Transfer, ...]
    """In order of their source node; each may end before the phase does."""


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """What one mini-migration sends."""

    moves: tuple[Move, ...]
    """In task order; at least one."""
    phases: tuple[TimedPhase, ...]
    """In order; none where the moves take no state along."""

    @property
    def seconds(self) -> float:
        """How long all of its state travels."""
        return math.fsum(phase.seconds for phase in self.phases)


@dataclass(frozen=True, slots=True)
class Forecast:
    """How the state of a plan travels."""

    batches: tuple[BatchForecast, ...]
    """One after the other; none where nothing moves."""

    @property
    def seconds(self) -> float:
        """How long state travels in all batches together."""
        return math.fsum(batch.seconds for batch in self.batches)


def forecast(
    problem: StepProblem,
    plan: StepPlan,
    bytes_per_s: Number | Sequence[Number],
    *,
    moves_per_batch: int | None = None,
    bytes_per_batch: Number | None = None,
) -> Forecast:
    """Return the order in which the plan's state travels, and how long.

    ``bytes_per_s`` is what the link of every node carries, in and out, or a number for each node.
    The limits are those of a policy; without any all moves are made in one batch.
    """
    pace = _Pace.of(bytes_per_s, problem.nodes_after)
    if moves_per_batch is None and bytes_per_batch is None:
        steps = [plan.moves] if plan.moves else []
    else:
        minis = mini_migrations(
            problem, plan, max_tasks=moves_per_batch, max_bytes=bytes_per_batch, per="batch"
        )
        steps = [step.moves for step in minis.steps]
    return Forecast(tuple(BatchForecast(moves, pace.phases(moves)) for moves in steps))


@dataclass(frozen=True, slots=True)
class _Pace:
    """How fast links are."""

    rates: tuple[Fraction, ...]
    """Bytes a second of each node's link."""
    fastest: Fraction

    @classmethod
    def of(cls, bytes_per_s: Number | Sequence[Number], nodes: int) -> _Pace:
        if isinstance(bytes_per_s, Sequence):
            given = amounts("bytes_per_s", bytes_per_s, length=nodes)
            rates = tuple(_rate(f"bytes_per_s[{i}]", number) for i, number in enumerate(given))
        else:
            rates = (_rate("bytes_per_s", bytes_per_s),) * nodes
        return cls(rates, max(rates))

    def phases(self, moves: Iterable[Move]) -> tuple[TimedPhase, ...]:
        """Return the phases of the moves, in the least time."""
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
    rate = amount(field, value)
    if rate < _SLOWEST:
        raise ProblemError(field, f"{shown(value)} is not positive, or below {_SLOWEST:g}")
    return Fraction(rate)


def _product(number: Number, factor: Fraction) -> Number:
    """Return the product: what is whole stays whole where it can, the rest is rounded once."""
    product = Fraction(number) * factor
    is_whole = isinstance(number, int) and product.denominator == 1
    return int(product) if is_whole else float(product)
