"""What is expected of a placement."""

from __future__ import annotations

import pytest
from tests.core.builders import QUERY, executors, load, observed, task

from elastream.core.prediction import predict


@pytest.mark.parametrize(("calm_ms", "fixed_ms"), [(None, 700), (200.0, 200), (900.0, 700)])
def test_executors_that_start_do_not_count_as_fixed_cost(
    calm_ms: float | None, fixed_ms: float
) -> None:
    seen = observed(
        load([0.2] * 4, "aabb", interval_ms=1000, overhead_ms=700),
        executors("a", "b", "c", "d"),
    )
    places = {task(j): node for j, node in enumerate("abcd")}
    calm = {} if calm_ms is None else {QUERY: calm_ms}
    prediction = predict(seen, places, set("abcd"), calm)
    assert prediction.batch_ms == {QUERY: pytest.approx(fixed_ms + 200)}
