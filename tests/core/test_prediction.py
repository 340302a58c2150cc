"""What is expected of a placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.core.builders import QUERY, batch, executors, load, observed, task

from elastream.core.change import CalmCosts
from elastream.core.load import QueryLoad, cost_of, smooth
from elastream.core.prediction import calm_costs, predict
from elastream.model.observation import BatchObservation

TWO = executors("a", "b")
FOUR = executors("a", "b", "c", "d")
APART = {task(j): node for j, node in enumerate("abcd")}


@pytest.mark.parametrize(
    ("calm", "batch_ms"),
    [
        (None, 700 + 200),
        (CalmCosts(200, 0, 20, 40), 200 + 200),
        (CalmCosts(700, 0, 10, 40), 700 + 100),
        (CalmCosts(700, 50, 20, 60), 700 + 25 + 300),
    ],
)
def test_a_batch_costs_what_it_cost_before_executors_started(
    calm: CalmCosts | None, batch_ms: float
) -> None:
    seen = observed(load([0.2] * 4, "aabb", interval_ms=1000, overhead_ms=700, rows_per_s=40), FOUR)
    prediction = predict(seen, APART, set("abcd"), {} if calm is None else {QUERY: calm})
    assert prediction.batch_ms == {QUERY: pytest.approx(batch_ms)}


def test_batches_that_follow_one_another_keep_executors_busier_once_they_are_shorter() -> None:
    seen = observed(load([0.2] * 4, "aabb", interval_ms=1000, overhead_ms=600, rows_per_s=40), FOUR)
    prediction = predict(seen, APART, set("abcd"), {})
    assert prediction.batch_ms == {QUERY: pytest.approx(800)}
    assert prediction.busiest == pytest.approx(200 / 800)


def test_batches_in_which_code_is_compiled_are_no_measure_of_later_ones() -> None:
    slow = [took(n, fixed_ms=8000, row_ms=3.0) for n in range(2)]
    usual = [took(n, fixed_ms=300, row_ms=1.0) for n in range(2, 7)]
    seen = QueryLoad()
    for each in (*slow, *usual):
        seen = smooth(seen, each, cost_of(each, TWO), half_life_s=10.0)
    calm = calm_costs([cost_of(each, TWO) for each in (*slow, *usual)])
    assert calm == CalmCosts(300, 0, 4.0, 100)
    application = observed(replace(seen, arrivals_per_s=None), FOUR)
    by_the_last = predict(application, APART, set("abcd"), {QUERY: calm})
    assert by_the_last.batch_ms == {QUERY: pytest.approx(300 + 100)}


def test_tasks_without_state_take_their_work_over_all_slots() -> None:
    outside = {"a": 400.0, "b": 200.0}  # run on both: 300 ms of a batch
    before = [took(n, fixed_ms=500, row_ms=1.0, outside_ms=outside) for n in range(5)]
    seen = QueryLoad()
    for each in before:
        seen = smooth(seen, each, cost_of(each, TWO), half_life_s=10.0)
    calm = calm_costs([cost_of(each, TWO) for each in before])
    assert calm == CalmCosts(500, 0, 4.0, 100, outside_ms=600, outside_length_ms=300)
    # New executors run such tasks at once, before the plan is made: that is no reason to expect
    # that nothing gets shorter.
    everywhere = replace(seen, outside=dict.fromkeys("abcd", 0.2))
    for load_now in (seen, everywhere):
        prediction = predict(observed(load_now, FOUR), APART, set("abcd"), {QUERY: calm})
        assert prediction.batch_ms == {QUERY: pytest.approx(500 - 300 + 150 + 100)}


def test_two_batches_are_too_few_for_a_median() -> None:
    assert calm_costs([cost_of(took(n, fixed_ms=300, row_ms=1.0), TWO) for n in range(2)]) is None


def took(
    number: int, *, fixed_ms: float, row_ms: float, outside_ms: Mapping[str, float] | None = None
) -> BatchObservation:
    """A batch of four tasks with 100 rows each, two an executor, right after the one before."""
    took_ms = fixed_ms + 200 * row_ms
    return batch(
        number,
        "aabb",
        run_ms=100 * row_ms,
        duration_ms=took_ms,
        interval_ms=took_ms,
        outside_ms=outside_ms,
        at_ms=100_000 * (number + 1),
    )
