from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handover.scenarios import sizes, streams

from elastream.handover.model import QueryShape, Window
from elastream.handover.testing.windows import JoinedRows, Output, Row, Windowing

LAST = 10**6


def put_out(shape: QueryShape, stream: list[tuple[int, Row]]) -> list[Output]:
    operator = Windowing(shape)
    return [output for i, row in stream for output in operator.read(i, row)]


@given(length=sizes, slide=sizes, inputs=st.integers(1, 2), data=st.data())
@settings(max_examples=min(300, settings().max_examples))
def test_a_time_window_holds_the_rows_of_its_span_and_comes_once_in_order(
    length: int, slide: int, inputs: int, data: st.DataObject
) -> None:
    lateness = data.draw(st.sampled_from([0, 4]))
    stream = data.draw(streams(inputs, lateness))
    closing = [(i, Row(LAST, 0)) for i in range(inputs)]
    window = Window.of("time", length, slide)
    found = put_out(QueryShape("q", window, inputs, lateness=lateness), stream + closing)
    newest = max(row.timestamp for _, row in stream)
    expected = []
    for start in range(-length // slide * slide, newest + 1, slide):
        span = range(start, start + length)
        content = tuple(
            tuple(sorted(row for j, row in stream if j == i and row.timestamp in span))
            for i in range(inputs)
        )
        if any(content):
            expected.append(Output(start, content))
    assert found == expected


@given(length=sizes, slide=sizes, data=st.data())
@settings(max_examples=min(300, settings().max_examples))
def test_a_row_window_holds_as_many_rows_of_every_input(
    length: int, slide: int, data: st.DataObject
) -> None:
    stream = data.draw(streams(2, 0))
    found = put_out(QueryShape("q", Window.of("rows", length, slide), 2), stream)
    rows = [[row for j, row in stream if j == i] for i in range(2)]
    complete = min(map(len, rows)) - length
    assert found == [
        Output(start, tuple(tuple(each[start : start + length]) for each in rows))
        for start in range(0, complete + 1, slide)
    ]


@given(length=sizes, slide=sizes, data=st.data())
@settings(max_examples=min(300, settings().max_examples))
def test_a_joined_pair_comes_once_however_many_windows_it_shares(
    length: int, slide: int, data: st.DataObject
) -> None:
    stream = data.draw(streams(2, 0))
    found = put_out(QueryShape("q", Window.of("time", length, slide), 2, "join"), stream)
    left, right = ([row for j, row in stream if j == i] for i in range(2))
    expected: Counter[Output] = Counter()
    for one in left:
        for other in right:
            early, late = sorted((one.timestamp, other.timestamp))
            starts = range(-length // slide * slide, early + 1, slide)
            if one.value == other.value and any(late < start + length for start in starts):
                expected[Output(early, ((one,), (other,)))] += 1
    assert Counter(found) == expected


def test_rows_that_come_too_late_are_dropped_and_counted() -> None:
    operator = Windowing(QueryShape("q", Window.of("time", 5, 5), 1, lateness=3))
    outputs = [operator.read(0, Row(at, 0)) for at in (1, 9, 6, 5, 13)]
    assert operator.late == 1
    assert outputs[1:] == [
        [Output(0, ((Row(1, 0),),))],
        [],
        [],
        [Output(5, ((Row(6, 0), Row(9, 0)),))],
    ]


def test_results_of_a_join_reach_the_row_windows_in_the_order_of_their_earlier_row() -> None:
    operator = JoinedRows(
        QueryShape("q", Window.of("rows", 2, 1), 2, "chain"), Window.of("time", 10, 1)
    )
    rows = [(0, Row(1, 7)), (0, Row(4, 8)), (1, Row(4, 8)), (1, Row(6, 7)), (0, Row(40, 0))]
    assert [operator.read(i, row) for i, row in rows] == [[]] * 5
    (window,) = operator.read(1, Row(40, 1))
    assert [result.timestamp for result in window.content[0]] == [1, 4]
