from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.builders import batch, executors, task

from elastream.control.observation import BatchObservation
from elastream.control.smoothing import SmoothedLoad, smoothed

NODES = executors("a", "b")


def after(*batches: BatchObservation, half_life_s: float = 10.0) -> SmoothedLoad:
    load = SmoothedLoad()
    for seen in batches:
        load = smoothed(load, seen, NODES, half_life_s=half_life_s)
    return load


def test_work_is_run_time_over_stream_time() -> None:
    load = after(batch(0, ["a", "b"], run_ms=[250, 500], interval_ms=1000))
    assert [load.tasks[task(j)].work for j in (0, 1)] == [0.25, 0.5]


def test_an_observation_loses_half_its_weight_in_a_half_life() -> None:
    load = after(
        batch(0, ["a"], run_ms=800, interval_ms=1000),
        batch(1, ["a"], run_ms=0, interval_ms=10_000),
        half_life_s=10,
    )
    assert load.tasks[task(0)].work == pytest.approx(0.4)


@given(
    first=st.floats(0, 1000),
    then=st.floats(0, 1000),
    cut=st.floats(0.05, 0.95),
    half_life_s=st.floats(0.5, 100),
)
@settings(max_examples=200)
def test_a_batch_cut_in_two_leaves_the_mean_where_it_was(
    first: float, then: float, cut: float, half_life_s: float
) -> None:
    start = batch(0, ["a"], run_ms=first, interval_ms=1000)
    whole = batch(1, ["a"], run_ms=then, interval_ms=1000)
    parts = [
        batch(1, ["a"], run_ms=then * cut, interval_ms=1000 * cut),
        batch(2, ["a"], run_ms=then * (1 - cut), interval_ms=1000 * (1 - cut)),
    ]
    one = after(start, whole, half_life_s=half_life_s).tasks[task(0)].work
    two = after(start, *parts, half_life_s=half_life_s).tasks[task(0)].work
    assert two == pytest.approx(one, abs=1e-9)


@given(st.lists(st.floats(0, 5000), min_size=1, max_size=20), st.floats(0.5, 100))
@settings(max_examples=200)
def test_a_mean_stays_within_what_was_seen(times_ms: list[float], half_life_s: float) -> None:
    load = after(
        *(batch(i, ["a"], run_ms=ms) for i, ms in enumerate(times_ms)), half_life_s=half_life_s
    )
    slack = 1e-12
    work = load.tasks[task(0)].work
    assert min(times_ms) / 1000 - slack <= work <= max(times_ms) / 1000 + slack


@given(st.lists(st.floats(0, 5000), min_size=1, max_size=8), st.data())
@settings(max_examples=200)
def test_a_replayed_batch_changes_nothing(times_ms: list[float], data: st.DataObject) -> None:
    batches = [batch(i, ["a"], run_ms=ms) for i, ms in enumerate(times_ms)]
    again = data.draw(st.sampled_from(batches))
    assert after(*batches, again) == after(*batches)


def test_the_first_batch_tells_places_and_state_but_no_rates() -> None:
    load = after(batch(0, ["a", "b"], run_ms=900, interval_ms=None, state_bytes=77))
    assert (load.tasks[task(1)].executor, load.tasks[task(1)].state_bytes) == ("b", 77)
    assert not load.tasks[task(1)].measured
    assert load.rows_per_s is None
    load = smoothed(load, batch(1, ["a", "b"], run_ms=100), NODES, half_life_s=10)
    assert load.tasks[task(1)].work == 0.1


def test_a_batch_without_an_interval_leaves_the_rates() -> None:
    known = after(batch(0, ["a"], run_ms=100, rows=50))
    load = smoothed(known, batch(1, ["b"], run_ms=900, interval_ms=None), NODES, half_life_s=10)
    assert load.tasks[task(0)] == replace(known.tasks[task(0)], executor="b")
    assert load.rows_per_s == known.rows_per_s


def test_a_task_that_a_batch_does_not_mention_keeps_its_figures() -> None:
    known = after(batch(0, ["a", "b"], run_ms=300))
    load = smoothed(known, batch(1, {0: "a"}, run_ms=100), NODES, half_life_s=10)
    assert load.tasks[task(1)] == known.tasks[task(1)]
    assert load.tasks[task(0)].work < 0.3


def test_a_task_seen_later_is_taken_in_with_its_first_figures() -> None:
    load = after(batch(0, {1: "a"}), batch(1, {0: "b", 1: "a"}, run_ms=[700, 100]))
    assert list(load.tasks) == [task(0), task(1)]
    assert load.tasks[task(0)].work == 0.7


def test_loading_state_after_a_move_is_not_work() -> None:
    load = after(batch(0, ["a"], run_ms=100), batch(1, ["b"], run_ms=5000))
    assert load.tasks[task(0)].work == 0.1
    load = smoothed(load, batch(2, ["b"], run_ms=200), NODES, half_life_s=10)
    assert load.tasks[task(0)].work > 0.1


def test_arrivals_are_rows_worked_off_plus_growth_of_the_backlog() -> None:
    load = after(batch(0, ["a"], rows=100, backlog=50), batch(1, ["a"], rows=100, backlog=90))
    assert load.arrivals_per_s == 140
    assert load.rows_per_s == 100


def test_arrivals_are_unknown_where_the_source_cannot_tell_its_backlog() -> None:
    assert after(batch(0, ["a"]), batch(1, ["a"])).arrivals_per_s is None


def test_time_outside_the_stateful_tasks_is_what_the_busiest_executor_leaves() -> None:
    load = after(batch(0, ["a", "a", "b"], run_ms=[100, 200, 50], duration_ms=500))
    assert load.outside_ms == 200


def test_cores_share_an_executors_run_time() -> None:
    seen = batch(0, ["a", "a"], run_ms=[200, 200], duration_ms=500)
    load = smoothed(SmoothedLoad(), seen, executors("a", cores=2), half_life_s=10)
    assert load.outside_ms == 300
