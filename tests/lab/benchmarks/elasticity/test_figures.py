from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.benchmarks.elasticity.figures import (
    ExecutorLife,
    changes,
    executor_seconds,
    lives_of,
    number_alive,
    overloaded_s,
    state_bytes_moved,
)
from elastream_lab.harness.commit_log import CommittedBatch

MB = 1_000_000
LIVES = (
    ExecutorLife("0", 0.0),
    ExecutorLife("1", 10_000.0, 40_000.0),
    ExecutorLife("2", 12_000.0, 41_000.0),
    ExecutorLife("3", 60_000.0),
)


def test_events_in_any_order_and_twice_make_one_life_each() -> None:
    came = [("1", 10_000.0), ("0", 0.0), ("2", 12_000.0), ("3", 60_000.0), ("3", 60_100.0)]
    went = [("2", 41_000.0), ("1", 40_000.0), ("1", 40_500.0), ("7", 5.0)]
    assert lives_of(came, went) == LIVES


def test_an_executor_counts_from_its_coming_to_its_going_within_the_span() -> None:
    assert executor_seconds(LIVES, 0, 100_000) == 100 + 30 + 29 + 40
    assert executor_seconds(LIVES, 20_000, 30_000) == 30
    assert executor_seconds(LIVES, 50_000, 55_000) == 5
    assert executor_seconds((), 0, 1000) == 0


def test_the_number_of_executors_is_reported_at_the_beginning_and_at_each_change() -> None:
    steps = list(number_alive(LIVES, 11_000, 70_000))
    assert steps == [(11_000, 2), (12_000, 3), (40_000, 2), (41_000, 1), (60_000, 2)]
    assert list(number_alive(LIVES, 70_000, 80_000)) == [(70_000, 2)]


def test_executors_that_come_or_go_together_are_one_change() -> None:
    assert changes(number_alive(LIVES, 5000, 70_000)) == 3
    assert changes(number_alive(LIVES, 70_000, 80_000)) == 0
    flapping = [ExecutorLife(str(n), 1000.0 * n, 1000.0 * n + 500) for n in range(1, 4)]
    assert changes(number_alive(flapping, 0, 10_000)) == 6


@settings(max_examples=min(500, settings().max_examples))
@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(1, 100), st.booleans()), min_size=1, max_size=12
    ),
    st.integers(0, 50),
    st.integers(1, 100),
)
def test_executor_seconds_are_what_lies_below_the_number_of_executors(
    spans: list[tuple[int, int, bool]], begin: int, length: int
) -> None:
    lives = [
        ExecutorLife(str(n), at * 1000.0, math.inf if stays else (at + long) * 1000.0)
        for n, (at, long, stays) in enumerate(spans)
    ]
    begin_ms, end_ms = begin * 1000.0, (begin + length) * 1000.0
    steps = number_alive(lives, begin_ms, end_ms)
    ends = [*(at_ms for at_ms, _ in steps[1:]), end_ms]
    below = sum(
        number * (end - at_ms) / 1000 for (at_ms, number), end in zip(steps, ends, strict=True)
    )
    assert executor_seconds(lives, begin_ms, end_ms) == pytest.approx(below)
    assert 0 <= changes(steps) <= len(steps) - 1


START_MS = 1_000_000.0
DUE_MS = np.arange(0, 20_000, 100, dtype=np.int64)
"""Ten rows a second for twenty seconds."""


def overload(ends: Sequence[tuple[float, int]], *, trigger_s: float = 2.0, first: int = 0) -> float:
    """For batches that begin this many seconds after the start and read up to that row."""
    batches, start = [], 0
    for number, (began_s, end) in enumerate(ends):
        began_ms = START_MS + 1000 * began_s
        batches.append(CommittedBatch(number, start, end, began_ms, began_ms + 100))
        start = end
    return overloaded_s(DUE_MS, START_MS, batches, first=first, trigger_s=trigger_s)


def test_a_query_that_reads_all_at_every_trigger_is_not_overloaded() -> None:
    on_time = [(2.0 * n, 20 * n) for n in range(1, 11)]
    assert overload(on_time) == 0
    assert overload([(at_s + 0.15, rows) for at_s, rows in on_time]) == 0, "a little late"


def test_a_batch_that_begins_too_late_is_overload_until_it_begins() -> None:
    # Rows wait from second 2 on; more than a trigger brings, and a tenth, do so from 4.2 on.
    late = [(2.0, 20), (7.0, 70), (9.0, 90), (20.0, 200)]
    assert overload(late) == pytest.approx((7 - 4.2) + (20 - 11.2))


def test_rows_that_a_batch_leaves_behind_are_overload_all_the_time() -> None:
    # The batch at second 6 leaves row 10, due at second 1; the one at second 8 reads it.
    behind = [(6.0, 10), (8.0, 80), (10.0, 100), (12.0, 200)]
    assert overload(behind) == pytest.approx((6 - 2.2) + (8 - 6))


def test_rows_read_before_the_start_do_not_count() -> None:
    assert overload([(-1.0, 40), (6.0, 60), (8.0, 200)], first=40) == 0
    assert overload([(-1.0, 40), (7.0, 70), (8.0, 200)], first=40) == pytest.approx(7 - 6.2)


def observation(number: int, executors: str) -> BatchObservation:
    """Partition n is on the n-th of the executors, with n + 1 MB of state; a blank is unseen."""
    tasks = tuple(
        TaskObservation(TaskId("q", 0, partition), executor, 100.0, 10, 5, (partition + 1) * MB)
        for partition, executor in enumerate(executors)
        if executor != " "
    )
    return BatchObservation("q", "run", number, 500.0, 10, None, 1000 * number, 1000.0, tasks)


@pytest.mark.parametrize(
    ("places", "moved"),
    [
        (["0011"] * 3, 0),
        (["0011", "0021"], 3 * MB),
        (["0011", "0021", "0011"], 6 * MB),
        (["0011", " 011", "2011"], MB),
        (["0011", "    ", "1100"], 10 * MB),
        ([], 0),
    ],
)
def test_state_moves_where_a_task_runs_elsewhere_than_it_last_did(
    places: list[str], moved: int
) -> None:
    seen = [observation(number, executors) for number, executors in enumerate(places)]
    assert state_bytes_moved(seen, since_ms=0) == moved


def test_state_that_moved_before_the_load_does_not_count_but_shows_where_it_was() -> None:
    seen = [observation(n, places) for n, places in enumerate(["00", "10", "11", "01"])]
    assert state_bytes_moved(seen, since_ms=1500) == 2 * MB + MB
