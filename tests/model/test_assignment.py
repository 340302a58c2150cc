from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import intervals

from elastream.model.assignment import MOST_NODES, Assignment, Interval
from elastream.model.errors import ProblemError


@settings(max_examples=min(300, settings().max_examples))
@given(st.integers(1, 12).flatmap(lambda tasks: st.tuples(st.just(tasks), intervals(tasks, 5))))
def test_intervals_survive_the_way_through_an_assignment(
    case: tuple[int, list[tuple[int, int]]],
) -> None:
    tasks, pairs = case
    found = Assignment.from_intervals(pairs, tasks=tasks).intervals
    assert found == tuple(Interval(*pair) if pair[0] < pair[1] else (0, 0) for pair in pairs)


def test_tasks_of_a_node_that_are_apart_have_no_intervals() -> None:
    assert Assignment.from_nodes([0, 1, 0]).intervals is None


def test_loads_are_summed_by_node() -> None:
    assert Assignment.from_nodes([0, 2, 0], nodes=4).loads([1, 2, 4]) == [5, 0, 2, 0]


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [
        ([], "current: has no node"),
        ([(0, 2)], r"current: no node holds tasks \[2, 3\)"),
        ([(0, 1), (2, 3)], r"current\[1\]: no node holds tasks \[1, 2\)"),
        ([(0, 2), (1, 3)], r"current\[1\]: \[1, 3\] holds task 1, which another node holds"),
        ([(0, 4)], r"current\[0\]\[1\]: 4 is too large; the most is 3"),
        ([(-1, 3)], r"current\[0\]\[0\]: -1 is too small; the least is 0"),
        ([(2, 1), (0, 3)], r"current\[0\]: \[2, 1\] ends before it begins"),
        ([(0, 1, 2)], r"current\[0\]: \(0, 1, 2\) is not an interval \[lb, ub\]"),
        ([(0, 2.5)], r"current\[0\]\[1\]: 2.5 is not a whole number"),
    ],
)
def test_intervals_that_do_not_tile_the_tasks_are_refused_by_name(
    pairs: list[tuple[int, int]], complaint: str
) -> None:
    with pytest.raises(ProblemError, match=f"^{complaint}"):
        Assignment.from_intervals(pairs, tasks=3)


def test_a_node_number_that_no_cluster_has_is_a_typing_error() -> None:
    with pytest.raises(ProblemError, match=r"current\[1\]: 1000000 is too large"):
        Assignment.from_nodes([0, MOST_NODES])
