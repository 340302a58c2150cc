from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import ProblemError
from elastream.replication.model.latency import Polynomial, Queue, fit_polynomial


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=4))
@settings(max_examples=200)
def test_points_of_a_polynomial_give_the_polynomial_back(coefficients: list[float]) -> None:
    true = Polynomial((50, *coefficients))
    rates = [0, 0.5, 1, 1.5, 2, 2.5, 3]
    points = [(rate, max(0.0, true.latency_ms(rate) or 0.0) + 100) for rate in rates]
    fitted = fit_polynomial(points, degree=6)
    for rate, latency in points:
        assert fitted.latency_ms(rate) == pytest.approx(latency, abs=1e-6)


def test_noise_is_averaged_out() -> None:
    points = [(rate, 5 + 0.1 * rate + (1 if rate % 20 else -1)) for rate in range(0, 200, 10)]
    fitted = fit_polynomial(points, degree=1)
    assert fitted.coefficients == pytest.approx((5, 0.1), abs=0.25)
    line = Polynomial((5, 0.1))

    def squares(model: Polynomial) -> float:
        return sum(((model.latency_ms(rate) or 0) - latency) ** 2 for rate, latency in points)

    assert squares(fitted) <= squares(line)


def test_a_queue_near_saturation_is_slow_and_beyond_it_has_no_latency() -> None:
    queue = Queue(100)
    assert queue.latency_ms(90) == 100
    assert queue.latency_ms(100) is None
    assert queue.latency_ms(101) is None


def test_too_few_rates_are_refused() -> None:
    with pytest.raises(ProblemError, match="1 different rates do not fix"):
        fit_polynomial([(10, 3), (10, 4)], degree=1)
    assert fit_polynomial([(10, 3), (10, 4)], degree=0).coefficients == pytest.approx((3.5,))
