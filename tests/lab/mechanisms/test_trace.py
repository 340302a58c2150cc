"""Traces made by hand: what a change comes to follows from its batches, and from them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import ElastreamError
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.benchmarks.migration.repeats import Range, grouped, over
from elastream_lab.harness.commit_log import CommittedBatch
from elastream_lab.mechanisms.trace import (
    Resize,
    ResizeFigures,
    Trace,
    batches_until_steady,
    measured,
    share_on_new,
    steady_batches,
)

MB = 1_000_000
OUT = Resize("live", 2, 3, asked_ms=12_600, done_ms=18_600, ends_ms=1e9)
"""Asked for after batch 11, of which the half second ended at 12.5."""


def batch(number: int, *, began_s: float, took_s: float = 0.5) -> CommittedBatch:
    """Batch n reads the rows 10 n to 10 n + 9."""
    began_ms = began_s * 1000
    return CommittedBatch(number, 10 * number, 10 * number + 10, began_ms, began_ms + took_s * 1000)


def observation(number: int, executors: Sequence[str], run: str) -> BatchObservation:
    tasks = tuple(
        TaskObservation(TaskId("q", 0, partition), executor, 100.0, 10, 5, MB)
        for partition, executor in enumerate(executors)
    )
    return BatchObservation("q", run, number, 500.0, 10, None, 0, 1000.0, tasks)


def trace_of(
    batches: Sequence[CommittedBatch], places: Sequence[str], *, restarted: int | None = None
) -> Trace:
    """A row is due every tenth of a second; ``places[n]`` has the executor of each task.

    From batch ``restarted`` on the query is in another run.
    """
    first_of_new = len(batches) if restarted is None else restarted
    seen = {
        b.batch: observation(b.batch, place, "new" if b.batch >= first_of_new else "old")
        for b, place in zip(batches, places, strict=True)
    }
    due_ms = np.arange(10 * len(batches)) * 100
    return Trace(tuple(batches), seen, due_ms, 0.0, 0)


def steady(number: int, took_s: Mapping[int, float] | None = None) -> list[CommittedBatch]:
    """Batch n begins when its rows are due, at second n + 1, and takes 0.5 s or as given."""
    return [batch(n, began_s=n + 1, took_s=(took_s or {}).get(n, 0.5)) for n in range(number)]


MOVING = ["001111"] * 14 + ["201111"] * 2 + ["221111"] * 24
"""Batch 14 runs one moved task, batch 16 another."""


def figures(
    took_s: Mapping[int, float] | None = None,
    places: Sequence[str] = MOVING,
    change: Resize = OUT,
    *,
    tau: float = 1.0,
) -> ResizeFigures:
    return measured(trace_of(steady(len(places), took_s), places), change, tau=tau)


def test_the_change_lasts_from_when_it_was_asked_for_to_three_batches_like_the_steady_ones() -> (
    None
):
    found = figures({13: 0.95, 14: 0.8, 16: 0.7, 17: 0.9, 19: 0.61})
    # Batch 17 is the first after the last move, 18 the first after the mechanism was done, 19 is
    # too long by 10 ms; the three in a row are 20, 21 and 22.
    assert found.steady_again
    assert found.asked_to_settled_s == pytest.approx(23.5 - 12.6)
    assert (found.steady_batch_ms, found.worst_batch_ms) == (500, 950)


def test_a_batch_at_the_very_limit_counts_as_steady() -> None:
    assert figures({19: 0.6}).asked_to_settled_s == pytest.approx(21.5 - 12.6)


def test_preparation_and_moving_are_distinguished() -> None:
    found = figures({13: 0.95, 14: 0.8, 16: 0.7, 17: 0.9})
    assert found.preparation.seconds == pytest.approx(15 - 12.6)
    assert found.preparation.worst_batch_ms == 950
    assert found.moving.seconds == pytest.approx(17.7 - 15)
    assert found.moving.worst_batch_ms == 800
    assert (found.partitions_moved, found.state_bytes_moved) == (2, 2 * MB)
    assert found.bytes_loaded_in_batches == 2 * MB


def test_a_long_batch_of_the_preparation_is_the_worst_of_the_change() -> None:
    assert figures({12: 0.9, 14: 0.6}).worst_batch_ms == 900


def test_the_batch_under_way_when_it_was_asked_for_belongs_to_the_change() -> None:
    found = figures({11: 0.9}, change=replace(OUT, asked_ms=12_600))
    assert (found.steady_batch_ms, found.worst_batch_ms) == (500, 900)


def test_long_batches_before_it_was_asked_for_do_not_count() -> None:
    assert figures({10: 0.9, 11: 0.9}, change=replace(OUT, asked_ms=12_950)).worst_batch_ms == 500


def test_a_query_that_is_never_steady_again_is_reported_by_three_batches_after_the_last_move() -> (
    None
):
    slower = dict.fromkeys(range(14, 40), 0.7)
    found = figures(slower)
    assert not found.steady_again
    # Batch 17 is the first of those that ended after the mechanism was done.
    assert found.asked_to_settled_s == pytest.approx(20.7 - 12.6)
    assert found.worst_batch_ms == 700


def test_three_steady_batches_before_the_last_move_end_nothing() -> None:
    places = ["001111"] * 13 + ["201111"] * 8 + ["221111"] * 19
    found = figures({}, places)
    assert found.moving.seconds == pytest.approx(22.5 - 14)
    assert found.asked_to_settled_s == pytest.approx(25.5 - 12.6)


def test_a_mechanism_that_is_not_done_is_not_over() -> None:
    found = figures(change=replace(OUT, done_ms=25_000))
    assert found.asked_to_settled_s == pytest.approx(27.5 - 12.6)


def test_a_change_that_is_watched_too_shortly_ends_with_its_last_batch() -> None:
    found = figures(change=replace(OUT, ends_ms=19_600))
    assert not found.steady_again
    assert found.asked_to_settled_s == pytest.approx(19.5 - 12.6)
    assert found.after is None


def test_nothing_that_moves_is_all_preparation_until_the_mechanism_is_done() -> None:
    found = figures({15: 0.9, 19: 0.8}, ["000111"] * 40, tau=0.2)
    assert (found.partitions_moved, found.state_bytes_moved) == (0, 0)
    assert found.preparation.seconds == pytest.approx(6.0)
    assert found.preparation.worst_batch_ms == 900
    assert (found.moving.seconds, found.moving.worst_batch_ms) == (0, None)
    assert found.batches_until_balanced is None
    assert found.worst_batch_ms == 900
    assert found.asked_to_settled_s == pytest.approx(23.5 - 12.6)


def test_balance_is_reached_when_no_executor_holds_more_than_the_limit() -> None:
    places = ["000111"] * 14 + ["200111"] + ["200112"] * 25
    assert figures({}, places, tau=0.2).batches_until_balanced == 2
    assert figures({}, places, tau=0.6).batches_until_balanced == 1


def test_a_scale_in_is_balanced_only_when_the_leaving_executor_is_empty() -> None:
    places = ["001122"] * 14 + ["001102"] + ["001101"] * 25
    back = replace(OUT, before=3, after=2)
    assert back.direction == "in"
    assert figures({}, places, back, tau=0.4).batches_until_balanced == 2


def stopped(*, gap_s: float = 5) -> Trace:
    """Batch 13 is the first after a stop; the rows that were due meanwhile wait for it."""
    batches = steady(13) + [batch(n, began_s=n + 1 + gap_s) for n in range(13, 40)]
    return trace_of(batches, ["000111"] * 13 + ["012012"] * 27, restarted=13)


def test_a_stop_shows_as_a_gap_and_loads_everything() -> None:
    found = measured(stopped(), replace(OUT, mechanism="pause"), tau=0.2)
    assert found.longest_gap_ms == 6000
    assert found.worst_batch_ms == 500
    assert (found.partitions_moved, found.state_bytes_moved) == (6, 6 * MB)
    assert found.bytes_loaded_in_batches == 6 * MB
    assert found.batches_until_balanced == 1
    assert found.preparation.seconds == pytest.approx(13.5 - 12.6)
    assert found.moving.seconds == pytest.approx(6)
    assert found.change is not None
    assert found.change.worst == pytest.approx(6500)


def test_rows_that_wait_for_more_than_twice_the_steady_p99_are_late() -> None:
    found = measured(stopped(), replace(OUT, mechanism="pause"), tau=0.2)
    # A steady row waits 0.6 to 1.5 s; after the stop all wait 5 s longer, for ever. The change
    # ends with batch 16, at 22.5, and its rows are those due from 12.6 to then; of these only the
    # rows of batch 12, due to 12.9, are in time.
    assert found.asked_to_settled_s == pytest.approx(22.5 - 12.6)
    assert found.rows_late == (22.5 - 13) * 10
    assert figures().rows_late == 0


def test_a_stop_is_found_by_the_run_of_the_query_not_by_the_longest_gap() -> None:
    batches = [*steady(14), batch(14, began_s=15, took_s=8.0)]
    batches += [batch(n, began_s=n + 10) for n in range(15, 40)]
    trace = trace_of(batches, ["000111"] * 15 + ["012012"] * 25, restarted=15)
    found = measured(trace, OUT, tau=0.2)
    assert found.longest_gap_ms == 8500
    assert found.moving.seconds == pytest.approx(25.5 - 23)
    assert (found.worst_batch_ms, found.moving.worst_batch_ms) == (8000, 500)


def test_a_stop_that_no_monitor_saw_is_the_longest_gap_around_it() -> None:
    whole = stopped()
    seen = {
        number: reported for number, reported in whole.seen.items() if number not in (12, 13, 14)
    }
    found = measured(replace(whole, seen=seen), OUT, tau=0.2)
    assert found.moving.seconds == pytest.approx(6)
    assert found.partitions_moved == 6


def test_a_batch_that_no_monitor_saw_is_passed_over() -> None:
    places = ["000111"] * 14 + ["200111"] + ["200112"] * 25
    trace = trace_of(steady(40), places)
    unseen = {number: seen for number, seen in trace.seen.items() if number != 15}
    found = measured(replace(trace, seen=unseen), OUT, tau=0.2)
    assert (found.partitions_moved, found.batches_until_balanced) == (2, 3)


def test_a_change_without_batches_around_it_is_refused() -> None:
    with pytest.raises(ElastreamError, match="no batch"):
        measured(trace_of(steady(5), ["01"] * 5), OUT, tau=0.2)


def test_response_time_is_from_due_to_commit() -> None:
    found = figures()
    # Row k of a batch is due k tenths into a second, and committed half a second after its end.
    for rows in (found.steady, found.change, found.after):
        assert rows is not None
        assert rows.worst == pytest.approx(1500)
    assert found.steady is not None
    assert found.steady.median == pytest.approx(1050)
    assert found.added_p99_ms == pytest.approx(0, abs=10)


def test_rows_due_in_the_change_count_also_where_their_batch_comes_later() -> None:
    # Batch 20 is the last of the change; those after it begin 4 s after their rows were due.
    batches = [*steady(21), *(batch(n, began_s=n + 5) for n in range(21, 40))]
    found = measured(trace_of(batches, MOVING), OUT, tau=1.0)
    assert found.asked_to_settled_s == pytest.approx(21.5 - 12.6)
    assert found.change is not None
    assert found.change.worst == pytest.approx(5500)
    assert found.added_p99_ms is not None
    assert found.added_p99_ms > 3500


def test_the_share_of_the_work_on_a_new_executor_is_reported_batch_by_batch() -> None:
    shares = share_on_new(trace_of(steady(40), MOVING), OUT)
    assert shares[0][0] == pytest.approx(1.5 - 12.6)
    assert [share for _, share in shares] == pytest.approx([0] * 14 + [1 / 6] * 2 + [2 / 6] * 24)


def test_the_summary_has_the_names_that_are_agreed() -> None:
    fields = figures({13: 0.95}).as_json()
    assert set(fields) == {
        "steady_batch_ms", "steady_worst_batch_ms", "worst_batch_ms", "asked_to_settled_s",
        "steady_again", "response_ms",
        "added_p99_ms", "longest_gap_ms", "rows_late", "preparation", "moving",
        "state_bytes_moved", "bytes_loaded_in_batches", "partitions_moved",
        "batches_until_balanced",
    }  # fmt: skip
    response = fields["response_ms"]
    assert isinstance(response, dict)
    assert {name: set(rows) for name, rows in response.items()} == {
        "steady": {"median", "p99"},
        "change": {"median", "p99", "worst"},
        "after": {"median", "p99"},
    }
    for phase in ("preparation", "moving"):
        assert set(fields[phase]) == {"seconds", "worst_batch_ms"}  # type: ignore[call-overload]
    assert (fields["steady_batch_ms"], fields["worst_batch_ms"]) == (500, 950)
    assert figures({4: 0.8, 13: 0.95}).steady_worst_batch_ms == 800, "before it was asked for"


few = settings(max_examples=min(150, settings().max_examples))
durations = st.lists(st.sampled_from([0.3, 0.5, 0.6, 0.7, 2.0]), max_size=25)


@given(after=durations)
@few
def test_a_query_is_steady_with_the_third_of_the_first_three_in_a_row(after: list[float]) -> None:
    batches = [batch(n, began_s=3 * n, took_s=took) for n, took in enumerate(after)]
    found = batches_until_steady(batches, steady(10))
    fit = "".join("x" if took <= 0.6 else "." for took in after)
    at = fit.find("xxx")
    assert found == (None if at < 0 else at + 3)


@given(
    took=st.lists(st.floats(0.05, 0.95), min_size=40, max_size=40),
    moves=st.sets(st.integers(12, 30), max_size=4),
    done_s=st.floats(12.6, 35),
    asked_s=st.floats(11, 12.6),
)
@few
def test_a_change_covers_its_parts_and_the_worst_of_them(
    took: list[float], moves: set[int], done_s: float, asked_s: float
) -> None:
    places, here = [], ["0"] * 6
    for number in range(40):
        if number in moves:
            here[len(moves & set(range(number)))] = "2"
        places.append("".join(here))
    change = replace(OUT, asked_ms=1000 * asked_s, done_ms=1000 * done_s)
    trace = trace_of(steady(40, dict(enumerate(took))), places)
    found = measured(trace, change, tau=0.2)
    whole_s = found.preparation.seconds + found.moving.seconds
    assert found.partitions_moved == len(moves)
    assert whole_s <= found.asked_to_settled_s + 1e-6
    assert found.asked_to_settled_s >= done_s - asked_s
    for part in (found.preparation, found.moving):
        assert (part.worst_batch_ms or 0) <= found.worst_batch_ms
    assert found.longest_gap_ms < 2000
    assert found.steady is not None
    assert found.change is not None
    assert found.change.median <= found.change.p99 <= found.change.worst
    # Nothing that came later than the change and its ten batches has a say.
    ended_ms = change.asked_ms + 1000 * found.asked_to_settled_s
    later = [b for b in trace.batches if b.finished_ms > ended_ms + 1e-3]
    if found.steady_again and len(later) > 10:
        short = replace(change, ends_ms=later[9].finished_ms)
        assert measured(trace, short, tau=0.2) == found


@given(asked_s=st.floats(1, 50), numbers=st.sets(st.integers(0, 39)).map(sorted))
@few
def test_at_most_ten_batches_that_ended_before_are_the_steady_ones(
    asked_s: float, numbers: list[int]
) -> None:
    batches = [steady(40)[number] for number in numbers]
    found = steady_batches(batches, 1000 * asked_s)
    ended = [b for b in batches if b.finished_ms <= 1000 * asked_s]
    assert found == ended[-10:]


def test_a_figure_over_repeats_is_its_median_and_its_range() -> None:
    assert over([3.0, 1.0, 2.0]) == Range(2.0, 1.0, 3.0)
    assert over([None, 4.0]) == Range(4.0, 4.0, 4.0)
    assert over([None]) is None
    assert over([]) is None
    assert Range(2.04, 1.0, 3.0).text(1) == "2.0 (1.0..3.0)"
    assert Range(2.04, 2.01, 2.049).text(1) == "2.0"


@given(values=st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1))
@few
def test_the_range_over_repeats_holds_all_that_is_known(values: list[float | None]) -> None:
    known = [value for value in values if value is not None]
    found = over(values)
    if found is None:
        assert known == []
    else:
        assert found.least == min(known) <= found.median <= max(known) == found.most


def test_repeats_are_grouped_by_their_case_in_the_order_of_the_first() -> None:
    assert grouped(["b1", "a1", "b2"], lambda name: name[0]) == {"b": ["b1", "b2"], "a": ["a1"]}
