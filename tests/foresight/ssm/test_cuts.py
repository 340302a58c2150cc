from __future__ import annotations

import math

import pytest

from elastream.foresight.ssm.cuts import cut_of, nodes_of_cut, prefix_sums
from elastream.model.assignment import Assignment
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem


def test_a_cut_forgets_the_nodes_and_those_that_are_idle() -> None:
    assert cut_of(Assignment.from_nodes([2, 2, 0, 3], nodes=5)) == (0, 2, 3, 4)


def test_a_node_whose_tasks_are_not_consecutive_has_no_cut() -> None:
    with pytest.raises(ProblemError, match="current: a node holds tasks that are not consecutive"):
        cut_of(Assignment.from_nodes([0, 1, 0]))


def test_intervals_stay_where_most_of_their_state_is_and_others_go_to_the_first_spare() -> None:
    step = StepProblem.of([1] * 4, [1, 9, 5, 1], [2, 2, 0, 0], 4, 1)
    assert nodes_of_cut(step, (0, 1, 3, 4)) == (1, 2, 2, 0)


@pytest.mark.parametrize("terms", [[3, 0, 4], [0.1] * 10, [2**52, 1, 0.5]])
def test_sums_are_rounded_once(terms: list[float]) -> None:
    assert prefix_sums(terms).tolist() == [math.fsum(terms[:i]) for i in range(len(terms) + 1)]
