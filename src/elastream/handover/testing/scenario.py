"""The scenario of a simulated handover: a query, its stream, and the faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from elastream.handover.ledger import Side
from elastream.handover.model import QueryShape, Window
from elastream.handover.testing.handover import operator_of
from elastream.handover.testing.windows import Output, Row

Stream = Sequence[tuple[int, Row]]
"""Rows of all inputs, each with the number of its input, in order of arrival."""
Fault = Literal["lose", "repeat", "delay"]


@dataclass(frozen=True, slots=True)
class HandoverScenario:
    """A query, its stream, when the target joins, and the faults."""

    shape: QueryShape
    stream: Stream
    join: Window | None = None
    """With it the query is row windows over the results of a join over these windows."""
    begin: int = 0
    """The target joins after this number of rows."""
    connect_after: tuple[int, ...] = ()
    """The target receives input i only this many rows after it connects."""
    lag: int = 0
    """Number of rows by which the origin is behind."""
    seed: int = 0
    """Seed for the number of rows per turn and the delay of messages."""
    target_shape: QueryShape | None = None
    """The target's idea of the query, if it differs."""
    faults: Mapping[int, Fault] = field(default_factory=dict)
    """Fault of the n-th message sent, from 0."""
    cut_after: int | None = None
    """All messages after this number are lost."""
    crash: tuple[Side, int] | None = None
    """The side crashes at its n-th effect, from 0: a message, a log line or a record."""
    comes_back: bool = True
    """Whether a crashed side is restarted."""
    full_disk: Side | None = None
    """The side whose record cannot be written."""
    full_at: frozenset[int] = frozenset()
    """Only these of its writes fail, counted from 0; all if empty."""
    clock_jump: tuple[Side, int, int] | None = None
    """The side's clock jumps by this many milliseconds in the n-th turn."""


def uninterrupted(scenario: HandoverScenario) -> list[Output]:
    """Return the output of an uninterrupted run of the query without a handover."""
    operator = operator_of(scenario.shape, scenario.join)
    return [output for i, row in scenario.stream for output in operator.read(i, row)]
