from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import ProblemError
from elastream_lab.studies.handover.break_even import (
    break_even_length_s,
    handover_cost,
    migration_cost,
)

amounts = st.floats(0.1, 1e6)


@given(
    slide=st.floats(0.1, 100),
    bandwidth=amounts,
    restart=st.floats(0, 100),
    fixed=amounts,
    rate=st.floats(0, 1000),
    row_bytes=st.floats(0, 1000),
    factor=st.sampled_from([0.5, 0.9, 1.1, 2]),
)
@settings(max_examples=min(500, settings().max_examples))
def test_below_the_break_even_a_handover_relieves_sooner_above_it_later(
    slide: float, bandwidth: float, restart: float, fixed: float,
    rate: float, row_bytes: float, factor: float,
) -> None:  # fmt: skip
    even = break_even_length_s(
        slide_s=slide, bytes_per_s=bandwidth, restart_s=restart,
        state_bytes=fixed, rows_per_s=rate, row_bytes=row_bytes,
    )  # fmt: skip
    length = max(slide, factor * (even if even is not None else 1000 * factor))
    handed = handover_cost(length_s=length, slide_s=slide, rows_per_s=rate)
    moved = migration_cost(
        state_bytes=fixed + rate * length * row_bytes,
        bytes_per_s=bandwidth, restart_s=restart, rows_per_s=rate,
    )  # fmt: skip
    if even is None or length < even * (1 - 1e-6):
        assert handed.relief_s < moved.relief_s
    elif length > even * (1 + 1e-6):
        assert handed.relief_s > moved.relief_s


def test_only_the_overlap_is_worked_on_twice_and_nothing_waits() -> None:
    cost = handover_cost(length_s=10, slide_s=2, rows_per_s=100)
    assert (cost.relief_s, cost.rows_twice) == (9, 800)
    assert handover_cost(length_s=10, slide_s=10, rows_per_s=100).rows_twice == 0


def test_the_break_even_of_the_page_on_handover() -> None:
    even = break_even_length_s(slide_s=2, restart_s=8, state_bytes=500e6, bytes_per_s=50e6)
    assert even == 19
    assert handover_cost(length_s=10, slide_s=2, rows_per_s=1000).rows_twice == 8000


def test_rows_that_come_faster_than_state_moves_leave_no_break_even() -> None:
    assert (
        break_even_length_s(slide_s=1, bytes_per_s=10, restart_s=5, rows_per_s=2, row_bytes=5)
        is None
    )


def test_the_break_even_of_the_page_on_handovers() -> None:
    even = break_even_length_s(slide_s=2, restart_s=8, state_bytes=500e6, bytes_per_s=50e6)
    assert even == 19
    assert handover_cost(length_s=10, slide_s=2, rows_per_s=1000).rows_twice == 8000


def test_a_bandwidth_of_nothing_is_refused() -> None:
    with pytest.raises(ProblemError, match="bytes_per_s: 0 is not positive; give more than zero"):
        break_even_length_s(slide_s=1, bytes_per_s=0, restart_s=5)
