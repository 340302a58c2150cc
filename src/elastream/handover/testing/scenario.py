"""What a simulated handover is about: a query, its stream, and what shall go wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from elastream.handover.ledger import Side
from elastream.handover.model import QueryShape, Window
from elastream.handover.testing.handover import operator_of
from elastream.handover.testing.windows import Output, Row

__all__ = ["Fault", "HandoverScenario", "Stream", "uninterrupted"]

Stream = Sequence[tuple[int, Row]]
"""Rows of all inputs, each with the number of its input, in the order in which they come."""
Fault = Literal["lose", "repeat", "delay"]


@dataclass(frozen=True, slots=True)
class HandoverScenario:
    """A query, its stream, when the target joins, and what goes wrong."""

    shape: QueryShape
    stream: Stream
    join: Window | None = None
    """With it the query is row windows over the results of a join over these windows."""
    begin: int = 0
    """The target joins when so many rows have come."""
    connect_after: tuple[int, ...] = ()
    """The target hears input i only so many rows later than it connects."""
    lag: int = 0
    """The origin is so many rows behind."""
    seed: int = 0
    """Draws how many rows come in a turn, and how long messages take."""
    target_shape: QueryShape | None = None
    """What the target believes the query to be, where that is something else."""
    faults: Mapping[int, Fault] = field(default_factory=dict)
    """What happens to the n-th message sent, from 0."""
    cut_after: int | None = None
    """All messages after so many are lost."""
    crash: tuple[Side, int] | None = None
    """The side dies at its n-th effect, from 0: a message, a line of the log or a record."""
    comes_back: bool = True
    """Whether a side that died is started again."""
    full_disk: Side | None = None
    """The side whose record cannot be written."""
    full_at: frozenset[int] = frozenset()
    """Only these of its writes fail, counted from 0; all where there is none."""
    clock_jump: tuple[Side, int, int] | None = None
    """The side's clock jumps in the n-th turn by so many milliseconds."""


def uninterrupted(scenario: HandoverScenario) -> list[Output]:
    """Return what one run of the query puts out that nobody hands over."""
    operator = operator_of(scenario.shape, scenario.join)
    return [output for i, row in scenario.stream for output in operator.read(i, row)]
