from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.handover.model import HandoverPlan, HandoverProblem, Window
from elastream.handover.point import (
    WindowOperator,
    expect_near,
    migration_point,
    row_boundary,
    row_delta,
    share_window,
    time_boundary,
    time_migration,
    whole_at_controlling,
    whole_from,
)
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible

sizes = st.integers(1, 50)


def planned(problem: HandoverProblem) -> HandoverPlan:
    plan = migration_point(problem)
    assert isinstance(plan, HandoverPlan)
    return plan


def time_plan(last: float, slide: float, *first: float) -> tuple[float, float | None]:
    plan = planned(HandoverProblem.of(Window.of("time", 4, slide), last, first))
    equation = time_migration(slide, last, first)
    assert equation == (plan.migration_timestamp, plan.activation_timestamp)
    return plan.migration_timestamp, plan.activation_timestamp


def row_plan(slide: int, first: list[int], *arrivals: list[int]) -> HandoverPlan:
    window = Window.of("rows", 3, slide)
    return planned(HandoverProblem.of(window, arrivals[0][0], first, arrivals))


def test_figure_2_hands_over_after_the_window_that_starts_at_3() -> None:
    assert time_plan(1, 2, 4) == (3, 5)


def test_a_first_tuple_at_a_window_start_is_the_targets_first() -> None:
    assert time_plan(1, 2, 5) == (3, 5)


def test_a_window_that_is_produced_already_stays_with_the_origin() -> None:
    assert time_plan(9, 2, 4) == (9, 11)


def test_the_latest_of_several_inputs_decides() -> None:
    assert time_plan(1, 2, 4, 8, 6) == (7, 9)


def test_decimal_fractions_are_computed_as_they_are_written() -> None:
    assert time_plan(0.3, 0.3, 0.9) == (0.6, 0.9)


@given(last=st.integers(0, 200), slide=sizes, first=st.lists(st.integers(0, 400), min_size=1))
@settings(max_examples=min(700, settings().max_examples))
def test_the_last_time_window_is_the_last_that_starts_before_the_first_tuple(
    last: int, slide: int, first: list[int]
) -> None:
    starts = range(last, max(last, *first) + slide, slide)
    by_definition = max((start for start in starts if start < max(first)), default=last)
    assert time_plan(last, slide, *first) == (by_definition, by_definition + slide)


def test_figure_3_as_equation_2_has_it_for_three_tuples_between() -> None:
    plan = row_plan(2, [5], [1, 2, 3, 4, 7])
    assert (plan.migration_timestamp, plan.discard) == (3, 0)


def test_figure_3_as_its_text_has_it_needs_the_first_tuple_counted_in() -> None:
    plan = row_plan(2, [5], [1, 2, 4, 7])
    assert (plan.migration_timestamp, plan.discard) == (4, 1)


@given(
    slide=sizes,
    gaps=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    first=st.integers(0, 80),
)
@settings(max_examples=min(700, settings().max_examples))
def test_the_last_row_window_is_the_last_that_starts_before_the_first_row_the_target_uses(
    slide: int, gaps: list[int], first: int
) -> None:
    arrivals = [10]
    for gap in gaps:
        arrivals.append(arrivals[-1] + gap)
    outcome = migration_point(
        HandoverProblem.of(Window.of("rows", 3, slide), 10, [first], [arrivals])
    )
    if first > arrivals[-1]:
        assert isinstance(outcome, Infeasible)
        return
    assert isinstance(outcome, HandoverPlan)
    used = [row for row, at in enumerate(arrivals) if at >= first and at > 10] or [len(arrivals)]
    last = max(start for start in range(0, len(arrivals), slide) if start < used[0])
    assert outcome.migration_timestamp == arrivals[last]
    assert outcome.discard == last + slide - used[0]
    assert 0 <= outcome.discard < slide


@given(slide=sizes, between=st.integers(0, 100))
@settings(max_examples=min(700, settings().max_examples))
def test_equation_2_agrees_with_the_definition(slide: int, between: int) -> None:
    arrivals = list(range(between + 2))
    plan = row_plan(slide, [arrivals[-1]], arrivals)
    delta, discard = row_delta(slide, between)
    assert delta == ((between + 1) % slide or slide)
    assert plan.migration_timestamp == arrivals[-1 - delta]
    assert plan.discard == discard == slide - delta


def test_every_input_of_rows_drops_up_to_the_same_window() -> None:
    plan = row_plan(4, [30, 20], [10, 11, 12, 13, 14, 15, 30], [10, 20])
    assert plan.deciding_input == 0
    assert (plan.migration_timestamp, plan.discard, plan.discards) == (14, 2, (2, 7))


def test_rows_before_the_first_tuple_cannot_be_counted_until_one_as_late_has_come() -> None:
    outcome = migration_point(HandoverProblem.of(Window.of("rows", 3, 2), 1, [9], [[1, 4, 8]]))
    assert isinstance(outcome, Infeasible)
    assert "input 0 has no tuple at 9 or later yet" in outcome.reason


def test_equal_timestamps_at_the_last_window_count_as_rows() -> None:
    plan = row_plan(2, [4], [5, 5, 5, 5, 5, 6])
    assert (plan.migration_timestamp, plan.discard) == (5, 1)


@pytest.mark.parametrize(
    ("kind", "length", "slide", "line"),
    [
        ("time", 0, 2, "window.length: 0 is not positive; give more than zero"),
        ("time", 4, -2, "window.slide: -2 is negative"),
        ("rows", 0, 2, "window.length: 0 is too small; the least is 1"),
        ("rows", 4, 1.5, "window.slide: 1.5 is not a whole number"),
        ("session", 4, 2, "window.kind: 'session' is not a kind of window"),
        ([], 4, 2, "window.kind: [] is not a kind of window"),
    ],
)
def test_a_window_without_size_or_kind_is_refused(
    kind: object, length: object, slide: object, line: str
) -> None:
    with pytest.raises(ProblemError) as refusal:
        Window.of(kind, length, slide)
    assert line in str(refusal.value)


@pytest.mark.parametrize(
    ("first", "arrivals", "line"),
    [
        ([], [], "first_tuples: is empty"),
        ([4], None, "arrivals: is missing"),
        ([4], [], "arrivals: has 0 lists where there are 1 inputs"),
        ([4], [[]], "arrivals[0]: begins with nothing"),
        ([4], [[2, 3]], "arrivals[0]: begins with 2, not with the first tuple of the last window"),
        ([4], [[1, 5, 4]], "arrivals[0][2]: 4 comes after 5; tuples must be in order"),
        ([4], 7, "arrivals: 7 is not a list"),
    ],
)
def test_arrivals_that_cannot_be_counted_are_refused(
    first: list[int], arrivals: list[list[int]] | None, line: str
) -> None:
    with pytest.raises(ProblemError) as refusal:
        HandoverProblem.of(Window.of("rows", 3, 2), 1, first, arrivals)
    assert line in str(refusal.value)


def test_time_windows_have_no_arrivals() -> None:
    with pytest.raises(ProblemError, match="only windows of rows"):
        HandoverProblem.of(Window.of("time", 3, 2), 1, [4], [[1, 4]])


@given(
    slide=sizes,
    produced=st.none() | st.integers(0, 200),
    whole=st.lists(st.integers(0, 200), min_size=1, max_size=3).map(tuple),
)
@settings(max_examples=min(700, settings().max_examples))
def test_a_time_boundary_is_the_earliest_that_both_sides_can_keep(
    slide: int, produced: int | None, whole: tuple[int, ...]
) -> None:
    boundary = time_boundary(Window.of("time", 7, slide), produced, whole)
    nothing = -slide
    kept = [
        start
        for start in range(nothing, 300, slide)
        if start >= max(whole) and start > (nothing if produced is None else produced)
    ]
    assert boundary.activation == kept[0]
    assert boundary.migration == kept[0] - slide
    assert boundary.from_timestamps == (kept[0],) * len(whole)


@given(
    slide=sizes,
    produced=st.none() | st.integers(0, 200),
    before=st.lists(st.integers(0, 200), min_size=1, max_size=3),
)
@settings(max_examples=min(700, settings().max_examples))
def test_a_row_boundary_is_the_earliest_that_both_sides_can_keep(
    slide: int, produced: int | None, before: list[int]
) -> None:
    whole = tuple(range(len(before)))
    boundary = row_boundary(Window.of("rows", 7, slide), produced, whole, before)
    kept = [
        start
        for start in range(0, 300, slide)
        if start >= max(before) and start > (-1 if produced is None else produced)
    ]
    assert boundary.activation == kept[0]
    assert [p + d for p, d in zip(before, boundary.discards, strict=True)] == kept[:1] * len(before)


@given(length=sizes, slide=sizes, one=st.integers(0, 120), gap=st.integers(0, 60))
@settings(max_examples=min(700, settings().max_examples))
def test_two_rows_share_a_window_if_one_of_all_windows_holds_both(
    length: int, slide: int, one: int, gap: int
) -> None:
    starts = range(-50 * slide, 200, slide)
    shared = any(start <= one and one + gap < start + length for start in starts)
    assert share_window(Window.of("time", length, slide), one + gap, one) == shared


@given(
    pair=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    length=st.integers(1, 20),
    start=st.integers(0, 60),
    earliest=st.booleans(),
)
@settings(max_examples=min(700, settings().max_examples))
def test_results_from_the_controlling_timestamp_on_are_made_of_rows_the_target_sees(
    pair: tuple[int, int], length: int, start: int, earliest: bool
) -> None:
    join = WindowOperator(Window.of("time", length, 1), earliest=earliest)
    whole = whole_at_controlling((start, 0), [join])
    if share_window(join.window, *pair) and (min if earliest else max)(pair) >= whole:
        assert min(pair) >= start


def test_a_row_window_before_the_controlling_one_must_keep_the_earliest_timestamp() -> None:
    with pytest.raises(ValueError, match="earliest"):
        whole_at_controlling((1,), [WindowOperator(Window.of("rows", 3, 1), earliest=False)])


def test_a_target_further_ahead_than_any_lag_is_refused() -> None:
    expect_near((5, 110), 10, 100)
    with pytest.raises(ProblemError, match="are 101 ahead of the origin's newest row"):
        expect_near((5, 111), 10, 100)


def test_a_reader_sees_every_row_only_after_the_timestamp_of_its_first() -> None:
    assert (whole_from(7), whole_from(7, lateness=3)) == (8, 11)
