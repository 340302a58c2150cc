"""What is expected of a placement."""

from __future__ import annotations

import pytest
from tests.core.builders import QUERY, executors, load, observed, task

from elastream.core.change import CalmCosts
from elastream.core.prediction import predict


@pytest.mark.parametrize(
    ("calm", "batch_ms"),
    [
        (None, 700 + 200),
        (CalmCosts(200, 0.02), 200 + 200),
        (CalmCosts(900, 0.03), 700 + 200),
        (CalmCosts(700, 0.01), 700 + 100),
    ],
)
def test_what_starting_executors_slow_down_is_no_cost_of_the_query(
    calm: CalmCosts | None, batch_ms: float
) -> None:
    seen = observed(
        load([0.2] * 4, "aabb", interval_ms=1000, overhead_ms=700, rows_per_s=40),
        executors("a", "b", "c", "d"),
    )
    places = {task(j): node for j, node in enumerate("abcd")}
    prediction = predict(seen, places, set("abcd"), {} if calm is None else {QUERY: calm})
    assert prediction.batch_ms == {QUERY: pytest.approx(batch_ms)}
