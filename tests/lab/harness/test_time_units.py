from __future__ import annotations

import pytest

from elastream_lab.harness.time_units import unit_us

A_DAY_IN_2020_S = 1_583_020_800


@pytest.mark.parametrize("unit", [1e6, 1e3, 1.0, 1e-3])
def test_the_unit_of_a_time_is_known_from_its_magnitude(unit: float) -> None:
    assert unit_us(A_DAY_IN_2020_S * 1e6 / unit) == unit
    assert unit_us(-A_DAY_IN_2020_S * 1e6 / unit) == unit


def test_what_is_no_number_has_some_unit() -> None:
    assert unit_us(float("nan")) == 1.0
    assert unit_us(float("inf")) == 1.0
