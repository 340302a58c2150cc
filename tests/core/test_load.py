from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.builders import batch, executors, task

from elastream.core.load import QueryLoad, TaskLoad, cost_of, pass_idle, smooth
from elastream.model.observation import BatchObservation

NODES = executors("a", "b")


def after(*batches: BatchObservation, half_life_s: float = 10.0) -> QueryLoad:
    load = QueryLoad()
    for seen in batches:
        load = smooth(load, seen, cost_of(seen, NODES), half_life_s=half_life_s)
    return load


def then(load: QueryLoad, *batches: BatchObservation) -> QueryLoad:
    for seen in batches:
        load = smooth(load, seen, cost_of(seen, NODES), half_life_s=10.0)
    return load


def test_work_is_run_time_over_stream_time() -> None:
    load = after(batch(0, ["a", "b"], run_ms=[250, 500], interval_ms=1000))
    assert [load.tasks[task(j)].work for j in (0, 1)] == [0.25, 0.5]


def test_an_observation_loses_half_its_weight_in_a_half_life() -> None:
    load = after(
        batch(0, ["a"], run_ms=800, interval_ms=1000),
        batch(1, ["a"], run_ms=0, interval_ms=10_000, at_ms=11_000),
        half_life_s=10,
    )
    assert load.tasks[task(0)].work == pytest.approx(0.4)


@given(
    first=st.floats(0, 1000),
    later=st.floats(0, 1000),
    cuts=st.lists(st.integers(1, 999), max_size=4, unique=True),
    half_life_s=st.floats(0.5, 100),
)
@settings(max_examples=200)
def test_how_a_batch_is_cut_leaves_the_mean_where_it_was(
    first: float, later: float, cuts: list[int], half_life_s: float
) -> None:
    start = batch(0, ["a"], run_ms=first, interval_ms=1000, duration_ms=1)
    whole = batch(1, ["a"], run_ms=later, interval_ms=1000, duration_ms=1)
    ends = [0, *sorted(cuts), 1000]
    parts = [
        batch(
            number,
            ["a"],
            run_ms=later * (end - begin) / 1000,
            interval_ms=end - begin,
            duration_ms=1,
            at_ms=1000 + end,
        )
        for number, (begin, end) in enumerate(pairwise(ends), 1)
    ]
    one = after(start, whole, half_life_s=half_life_s).tasks[task(0)].work
    many = after(start, *parts, half_life_s=half_life_s).tasks[task(0)].work
    assert many == pytest.approx(one, abs=1e-9)


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


def test_the_first_batch_shows_places_and_state_but_no_rates() -> None:
    load = after(batch(0, ["a", "b"], run_ms=900, interval_ms=None, state_bytes=77))
    assert load == QueryLoad(
        tasks={
            task(j): TaskLoad(node, 0.0, 0.0, 77, measured=False) for j, node in enumerate("ab")
        },
        run="run 1",
        batch=0,
        until_ms=1000,
        batch_ms=500.0,
    )
    assert then(load, batch(1, ["a", "b"], run_ms=100)).tasks[task(1)].work == 0.1


def test_a_batch_without_an_interval_leaves_the_rates() -> None:
    known = after(batch(0, ["a"], run_ms=100, rows=50))
    load = then(known, batch(1, ["b"], run_ms=900, interval_ms=None))
    assert load == replace(
        known,
        tasks={task(0): replace(known.tasks[task(0)], executor="b")},
        batch=1,
        until_ms=2000,
    )


def test_a_task_that_a_batch_does_not_mention_keeps_its_figures() -> None:
    known = after(batch(0, ["a", "b"], run_ms=300))
    load = then(known, batch(1, {0: "a"}, run_ms=100))
    assert load.tasks[task(1)] == known.tasks[task(1)]
    assert load.tasks[task(0)].work < 0.3


def test_a_task_seen_later_is_taken_in_with_its_first_figures() -> None:
    load = after(batch(0, {1: "a"}), batch(1, {0: "b", 1: "a"}, run_ms=[700, 100]))
    assert list(load.tasks) == [task(0), task(1)]
    assert load.tasks[task(0)].work == 0.7


def test_loading_state_after_a_move_is_not_work() -> None:
    load = after(batch(0, ["a"], run_ms=100), batch(1, ["b"], run_ms=5000))
    assert load.tasks[task(0)].work == 0.1
    assert then(load, batch(2, ["b"], run_ms=200)).tasks[task(0)].work > 0.1


def test_arrivals_are_rows_worked_off_plus_growth_of_the_backlog() -> None:
    load = after(batch(0, ["a"], rows=100, backlog=50), batch(1, ["a"], rows=100, backlog=90))
    assert (load.arrivals_per_s, load.rows_per_s, load.backlog) == (140, 100, 90)


def took(*batches: tuple[int, int | None]) -> QueryLoad:
    """The load after batches of this many rows that left this many at the source."""
    return after(
        *(
            batch(number, ["a"], rows=rows, backlog=left)
            for number, (rows, left) in enumerate(batches)
        )
    )


@pytest.mark.parametrize(
    ("batches", "limit"),
    [
        ([(100, 500), (100, 400)], 100),
        ([(100, 500), (100, 900)], 100),
        ([(100, 500), (100, 400), (90, 310)], 100),
        ([(100, 500), (100, 400), (120, 280)], 120),
        ([(100, 500), (100, 400), (0, 400)], 100),
        ([(100, 90), (100, 0)], None),
        ([(100, 100), (100, 50)], None),
        ([(100, 500), (100, 400), (450, 0)], None),
        ([(100, 500), (0, 500)], None),
        ([(100, 500), (100, 0)], None),
        ([(100, None), (100, None)], None),
        ([(100, 500), (100, 400), (100, None)], 100),
    ],
    ids=[
        "rows are left",
        "and more come",
        "the most of several",
        "a higher one",
        "a batch without rows tells nothing",
        "all that waited was taken",
        "exactly what waited was taken",
        "one took more and left none",
        "none was taken",
        "what waited was no rows",
        "the source does not tell",
        "and no longer tells",
    ],
)
def test_a_source_that_leaves_rows_to_the_next_batch_has_a_limit(
    batches: list[tuple[int, int | None]], limit: int | None
) -> None:
    assert took(*batches).limit_rows == limit


def test_a_new_run_may_have_another_limit() -> None:
    known = took((100, 500), (100, 400))
    restarted = then(known, batch(2, ["a"], rows=100, backlog=300, run="run 2"))
    assert restarted.limit_rows is None
    assert then(restarted, batch(3, ["a"], rows=50, backlog=260, run="run 2")).limit_rows == 50


def test_arrivals_are_unknown_where_the_source_cannot_tell_its_backlog() -> None:
    assert after(batch(0, ["a"]), batch(1, ["a"])).arrivals_per_s is None


def test_the_overhead_is_the_time_that_the_busiest_executor_runs_no_task() -> None:
    load = after(batch(0, ["a", "a", "b"], run_ms=[100, 200, 50], duration_ms=500))
    assert load.overhead_ms == 200


def test_a_long_batch_counts_no_more_than_a_short_one_in_figures_of_a_batch() -> None:
    """Half of the stream's time in batches of 1 s, half in one of 2 s: one in three is long."""
    load = after(
        batch(0, ["a"], run_ms=1000, interval_ms=1000, duration_ms=1000),
        batch(1, ["a"], run_ms=1000, interval_ms=2000, duration_ms=2000, at_ms=3000),
        half_life_s=2,
    )
    assert load.interval_ms == pytest.approx(4000 / 3)
    assert load.overhead_ms == pytest.approx(1000 / 3)


@pytest.mark.parametrize(("cores", "task_cpus"), [(2, 1), (4, 2), (1, 0.5)])
def test_slots_share_an_executors_run_time(cores: int, task_cpus: float) -> None:
    seen = batch(0, ["a", "a"], run_ms=[200, 200], duration_ms=500)
    cost = cost_of(seen, executors("a", cores=cores, task_cpus=task_cpus))
    assert cost.overhead_ms == 300
    assert smooth(QueryLoad(), seen, cost, half_life_s=10).overhead_ms == 300


def test_what_a_query_does_outside_its_state_is_reported_by_executor() -> None:
    load = after(
        batch(0, ["a"], outside_ms={"a": 400.0, "b": 100.0}, interval_ms=1000),
        batch(1, ["a"], outside_ms={"a": 400.0}, interval_ms=10_000, at_ms=11_000),
    )
    assert load.outside == pytest.approx({"a": 0.4 * 0.5 + 0.04 * 0.5, "b": 0.1 * 0.5})


def test_an_executor_that_does_nothing_outside_state_any_more_is_forgotten() -> None:
    load = after(batch(0, ["a"], outside_ms={"a": 100.0, "b": 100.0}))
    later = [
        batch(n, ["a"], outside_ms={"a": 100.0}, interval_ms=400_000, at_ms=400_000 * n)
        for n in (1, 2)
    ]
    assert set(then(load, *later).outside) == {"a"}


def test_in_idle_time_work_fades_and_state_stays() -> None:
    busy = after(
        batch(0, ["a"], run_ms=800, rows=100, backlog=0, outside_ms={"a": 200.0}),
        batch(1, ["a"], run_ms=800, rows=100, backlog=0, outside_ms={"a": 200.0}),
    )
    assert pass_idle(busy, 12_000, half_life_s=10) == replace(
        busy,
        tasks={task(0): TaskLoad("a", 0.4, 50.0, 1000.0, measured=True)},
        outside={"a": 0.1},
        until_ms=12_000,
        rows_per_s=50.0,
        arrivals_per_s=50.0,
    )


def test_idle_time_weighs_the_same_however_often_one_looks() -> None:
    busy = after(batch(0, ["a"], run_ms=800))
    often = busy
    for at_ms in range(1000, 61_001, 500):
        often = pass_idle(often, at_ms, half_life_s=10)
    once = pass_idle(busy, 61_000, half_life_s=10)
    assert often.tasks[task(0)].work == pytest.approx(once.tasks[task(0)].work)
    assert often.until_ms == once.until_ms


def test_idle_time_counts_once_it_is_worth_counting() -> None:
    busy = after(batch(0, ["a"]))
    assert pass_idle(busy, 2500, half_life_s=10) == busy
    assert pass_idle(busy, 3000, half_life_s=10).until_ms == 3000


def test_a_query_that_no_one_has_heard_of_has_not_been_idle() -> None:
    assert pass_idle(QueryLoad(), 60_000, half_life_s=10) == QueryLoad()


def test_a_batch_after_idle_time_does_not_count_the_idle_time_twice() -> None:
    rested = pass_idle(after(batch(0, ["a"], run_ms=800)), 61_000, half_life_s=10)
    last = batch(1, ["a"], run_ms=500, interval_ms=61_000, duration_ms=1000, at_ms=62_000)
    covered_one_second = batch(1, ["a"], run_ms=500, interval_ms=1000, at_ms=62_000)
    found, wanted = then(rested, last), then(rested, covered_one_second)
    assert found.tasks == wanted.tasks
    assert found.rows_per_s == wanted.rows_per_s


def test_a_batch_that_began_before_the_idle_time_ended_covers_its_own_time() -> None:
    rested = pass_idle(after(batch(0, ["a"])), 61_000, half_life_s=10)
    long = batch(1, ["a"], run_ms=4000, interval_ms=61_000, duration_ms=4000, at_ms=62_000)
    same = batch(1, ["a"], run_ms=4000, interval_ms=4000, duration_ms=4000, at_ms=65_000)
    assert then(rested, long).tasks == then(rested, same).tasks


def test_a_restarted_run_counts_from_its_first_batch_and_covers_that_batch_alone() -> None:
    before = after(batch(7, ["a"], run_ms=100))
    again = batch(
        0, ["a"], run="run 2", run_ms=900, interval_ms=None, duration_ms=1000, at_ms=90_000
    )
    load = then(before, again)
    assert (load.run, load.batch, load.until_ms) == ("run 2", 0, 90_000)
    weight = 1 - 2 ** (-1 / 10)
    assert load.tasks[task(0)].work == pytest.approx(0.1 + weight * (0.9 - 0.1))


def test_the_sums_of_a_load_are_those_of_its_tasks() -> None:
    load = after(batch(0, ["a", "a", "b"], run_ms=[100, 200, 400], state_bytes=10))
    assert load.work == pytest.approx(0.7)
    assert load.heaviest == 0.4
    assert load.held == pytest.approx({"a": 0.3, "b": 0.4})
    assert load.state_bytes == 30
    assert load.measured
    assert not QueryLoad().measured
