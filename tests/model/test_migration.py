from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.assignment import Assignment
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, Target, exact_sum

GOOD: dict[str, Any] = {
    "work": [1, 2, 3],
    "state": [1.5, 0, 2],
    "current": [(0, 3)],
    "nodes": 2,
    "tau": 0.5,
}


def test_a_problem_keeps_whole_numbers_whole() -> None:
    problem = StepProblem.of(**GOOD)
    assert problem == StepProblem((1, 2, 3), (1.5, 0, 2), Assignment((0, 0, 0), 1), Target(2, 0.5))
    assert problem.limit == 4.5
    assert problem.nodes_after == 2


def test_numpy_arrays_are_taken_as_lists() -> None:
    arrays = GOOD | {"work": np.array([1, 2, 3]), "state": np.array([1.5, 0, 2])}
    assert StepProblem.of(**arrays) == StepProblem.of(**GOOD)


def test_the_node_of_each_task_may_stand_for_intervals() -> None:
    assert StepProblem.of(**GOOD | {"current": [0, 0, 0]}) == StepProblem.of(**GOOD)


def test_a_task_loads_its_state_but_where_it_is_and_where_a_copy_is() -> None:
    problem = StepProblem.of(**GOOD | {"nodes": 3, "copies": [(0, 1), [2, 0], (0, 1)]})
    assert problem.copies == {(0, 1)}, "a copy on the task's own node is left out"
    assert hash(problem) == hash(StepProblem.of(**GOOD | {"nodes": 3, "copies": [(0, 1)]}))
    assert [problem.loaded(0, node) for node in range(3)] == [0, 0, 1.5]
    assert [problem.loaded(2, node) for node in range(3)] == [0, 2, 2]


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("work", [], "work: is empty"),
        ("work", "abc", "work: 'abc' is not a list"),
        ("work", [1, -2, 3], r"work\[1\]: -2 is negative"),
        ("work", [1, math.nan, 3], r"work\[1\]: nan is not finite"),
        ("work", [1, 2, math.inf], r"work\[2\]: inf is not finite"),
        ("work", [1, 2, 1e200], r"work\[2\]: 1e\+200 is not finite, or above 1e100"),
        ("work", [1, True, 3], r"work\[1\]: True is not a number"),
        ("work", [1, None, 3], r"work\[1\]: None is not a number"),
        ("state", [1, 2], "state: has 2 entries where 3 are needed"),
        ("current", 7, "current: 7 is not a list"),
        ("current", [0, 0], "current: places 2 tasks where there are 3"),
        ("current", [0, -1, 0], r"current\[1\]: -1 is too small"),
        ("nodes", 0, "nodes: 0 is too small; the least is 1"),
        ("nodes", 2.5, "nodes: 2.5 is not a whole number"),
        ("nodes", True, "nodes: True is not a whole number"),
        ("nodes", 10**9, "nodes: 1000000000 is too large"),
        ("tau", -0.1, "tau: -0.1 is negative"),
        ("tau", "x", "tau: 'x' is not a number"),
        ("copies", 7, "copies: 7 is not a list"),
        ("copies", [3], r"copies\[0\]: 3 is not a pair of task and node"),
        ("copies", [(0, 1), (0, 1, 1)], r"copies\[1\]: \(0, 1, 1\) is not a pair"),
        ("copies", [(3, 1)], r"copies\[0\]\[0\]: 3 is too large; the most is 2"),
        ("copies", [(0, 2)], r"copies\[0\]\[1\]: 2 is too large; the most is 1"),
    ],
)
def test_a_wrong_field_is_named_with_its_position_and_value(
    field: str, value: object, complaint: str
) -> None:
    with pytest.raises(ProblemError, match=f"^{complaint}"):
        StepProblem.of(**GOOD | {field: value})


def test_a_sequence_needs_a_migration() -> None:
    with pytest.raises(ProblemError, match=r"^targets: is empty"):
        SequenceProblem.of([1], [1], [(0, 1)], [])


def test_a_wrong_target_is_named() -> None:
    with pytest.raises(ProblemError, match=r"^targets\[1\]\.nodes: 0 is too small"):
        SequenceProblem.of([1], [1], [(0, 1)], [(1, 0), (0, 0)])


def test_whole_sums_are_exact_and_others_rounded_once() -> None:
    assert exact_sum([2**60, 1]) == 2**60 + 1
    assert exact_sum([0.1] * 10) == 1.0
