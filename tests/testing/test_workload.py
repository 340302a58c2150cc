from __future__ import annotations

from collections.abc import Callable

import pytest

from elastream import ProblemError
from elastream.testing import even_workload, rate_ramp, rate_steps


def test_a_stepped_rate_holds_until_the_next_second_given() -> None:
    rate = rate_steps({10: 100, 30: 50, 20: 400})
    assert [rate(second) for second in (0, 9.9, 10, 19, 20, 29.9, 30, 1e6)] == [
        0, 0, 100, 100, 400, 400, 50, 50,
    ]  # fmt: skip


def test_a_ramped_rate_goes_evenly_from_point_to_point() -> None:
    rate = rate_ramp({10: 100, 30: 50, 20: 400})
    assert [rate(second) for second in (0, 10, 15, 20, 25, 30, 1e6)] == [
        100, 100, 250, 400, 225, 50, 50,
    ]  # fmt: skip


def test_a_number_is_a_steady_rate() -> None:
    workload = even_workload(4, 250, most_rows=10)
    assert {workload.rows_per_s(second) for second in (0, 1, 1e6)} == {250}
    assert workload.most_rows == 10


@pytest.mark.parametrize("curve", [rate_steps, rate_ramp])
def test_a_curve_that_makes_no_sense_is_refused(
    curve: Callable[[dict[float, float]], object],
) -> None:
    with pytest.raises(ProblemError, match="rates: is empty"):
        curve({})
    with pytest.raises(ProblemError, match=r"rates\[2\.5\]: -1 is negative"):
        curve({0: 1, 2.5: -1})
