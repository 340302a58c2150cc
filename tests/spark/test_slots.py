"""Real-time batches never find fewer slots than they need."""

from __future__ import annotations

import pytest

from elastream.spark.internals.realtime import SlotCount
from elastream.spark.steer.slots import shortage


@pytest.mark.parametrize(
    ("total", "taken", "needs", "leaving", "more"),
    [
        (10, 0, 6, 0, 0),
        (20, 0, 6, 10, 0),
        (10, 4, 6, 0, 0),
        (20, 0, 6, 10, 4),
        (0, 0, 0, 0, 0),
    ],
)
def test_what_leaves_enough_slots_is_allowed(
    total: int, taken: int, needs: int, leaving: int, more: int
) -> None:
    assert shortage(SlotCount(total, taken), needs, leaving=leaving, more=more) is None


@pytest.mark.parametrize(
    ("total", "taken", "needs", "leaving", "more", "why"),
    [
        (10, 0, 6, 5, 0, "5 slots would be left, and Real-time batches need 6 at once"),
        (10, 0, 6, 10, 0, "0 slots would be left, and Real-time batches need 6 at once"),
        (
            10,
            5,
            6,
            0,
            0,
            "10 slots would be left, and Real-time batches need 6 at once, other jobs 5",
        ),
        (
            10,
            1,
            6,
            0,
            4,
            "10 slots would be left, and Real-time batches need 6 at once, other jobs 1, "
            "elastream 4",
        ),
    ],
)
def test_what_would_leave_too_few_is_refused_with_the_figures(
    total: int, taken: int, needs: int, leaving: int, more: int, why: str
) -> None:
    assert shortage(SlotCount(total, taken), needs, leaving=leaving, more=more) == why
