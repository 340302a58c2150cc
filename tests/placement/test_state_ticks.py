from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.checks import Number
from elastream.placement.state_ticks import Ticks

sizes = st.one_of(st.integers(0, 10**40), st.floats(0, 1e100))


@given(st.lists(sizes, min_size=1, max_size=20), st.integers(20, 55))
@settings(max_examples=300)
def test_sizes_are_rounded_down_by_less_than_a_tick_and_fill_the_bits(
    state: list[Number], bits: int
) -> None:
    ticks = Ticks.of(state, bits=bits)
    for size, count in zip(state, ticks.sizes, strict=True):
        exact = Fraction(size) * Fraction(2) ** ticks.exponent
        assert count <= exact < count + 1
    assert sum(ticks.sizes) < 2**bits
    tick = Fraction(2) ** -ticks.exponent
    assert ticks.exact == all(
        count * tick == size for size, count in zip(state, ticks.sizes, strict=True)
    )
    if any(state):
        assert sum(ticks.sizes) > 2 ** (bits - 3) - len(state)


@pytest.mark.parametrize("state", [[0, 0], [0.0]])
def test_no_state_is_no_ticks(state: list[Number]) -> None:
    ticks = Ticks.of(state, bits=50)
    assert set(ticks.sizes) == {0}


def test_whole_bytes_that_floats_can_sum_are_counted_as_they_are() -> None:
    assert Ticks.for_floats([3, 2**52]) == Ticks((3, 2**52), 0)
    finer, coarser = Ticks.for_floats([0.5, 3]), Ticks.for_floats([2**60, 2**55])
    assert finer.exponent > 0 > coarser.exponent
    assert sum(finer.sizes) < 2**53 > sum(coarser.sizes)
