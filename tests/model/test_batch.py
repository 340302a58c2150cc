"""How long a batch takes under a placement: the terms of a problem's limits."""

from typing import Any

import pytest

from elastream.model.batch import Limits, Spread, stage_length, total_slots
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import step_plan


def two_stages(nodes_of_tasks: list[int], nodes: int, **fields: Any) -> StepProblem:
    return StepProblem.of_stages(
        [3, 1, 2, 2], [10] * 4, nodes_of_tasks, nodes, 0.5, stages=[0, 0, 1, 1], **fields
    )


def test_a_stage_takes_as_long_as_its_fullest_executor() -> None:
    assert stage_length([("a", 3.0), ("a", 1.0), ("b", 2.0)], {"a": 1, "b": 1}) == 4.0


def test_an_executor_with_more_slots_takes_no_less_than_its_longest_task() -> None:
    assert stage_length([("a", 3.0), ("a", 1.0)], {"a": 2}) == 3.0


def test_tasks_take_the_first_free_slot_in_their_order() -> None:
    assert stage_length([("a", 3.0), ("a", 3.0), ("a", 2.0)], {"a": 2}) == 5.0
    assert stage_length([("a", 1.0), ("a", 1.0), ("a", 2.0)], {"a": 2}) == 3.0
    assert stage_length([("a", 1.0)] * 9, {"a": 2}) == 5.0, "nine tasks take five rounds"


def test_a_stage_on_an_executor_without_slots_never_ends() -> None:
    assert stage_length([("a", 3.0)], {}) == float("inf")


def test_stages_run_one_after_another() -> None:
    problem = two_stages([0, 1, 0, 1], 2)
    assert Spread.of(problem, (0, 1, 0, 1)) == Spread((5,), (3, 2), 5)
    assert Spread.of(problem, (0, 0, 1, 1)) == Spread((8,), (4, 4), 4)


def test_the_limit_of_a_batch_is_the_sum_of_the_stages() -> None:
    assert Limits.of(two_stages([0] * 4, 2)).batches == (6.0,)
    assert Limits.of(two_stages([0] * 4, 2, within="stage")).stages == (3.0, 3.0)


def test_a_node_with_two_slots_takes_half_as_long() -> None:
    problem = two_stages([0] * 4, 2, slots=[2, 1])
    assert total_slots(problem) == 3
    assert Spread.of(problem, (0, 1, 0, 1)).batches == (1.5 + 2,)


def test_nodes_that_leave_have_no_slots() -> None:
    problem = two_stages([0, 1, 2, 2], 2, slots=[1, 1], memory=[30, 30])
    assert problem.slots == (1, 1, 0)
    assert problem.memory == (30, 30, 0)


def test_a_plan_over_any_limit_is_unbalanced() -> None:
    problem = two_stages([0] * 4, 2)
    plan = step_plan(problem, (0, 1, 0, 1))
    assert (plan.status, plan.batch, plan.batch_limit) == ("feasible", 5, 6.0)
    assert step_plan(problem, (0, 0, 1, 1)).status == "unbalanced"
    crowded = two_stages([0] * 4, 2, memory=[10, 40])
    assert step_plan(crowded, (0, 1, 0, 1)).status == "unbalanced"


def test_one_stage_and_equal_slots_are_the_papers_problem() -> None:
    plain = StepProblem.of_stages([1, 2], [1, 1], [0, 0], 2, 0, stages=[0, 0], slots=[1, 1])
    assert plain.plain
    assert not two_stages([0] * 4, 2).plain


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"stages": [1, 1]}, "stages: has no task of stage 0"),
        ({"stages": [0]}, "stages: has 1 entries where 2 are needed"),
        ({"slots": [1, 0]}, r"slots\[1\]: 0 is not positive"),
        ({"slots": [1]}, "slots: has 1 entries where 2 are needed"),
        ({"memory": [1]}, "memory: has 1 entries where 2 are needed"),
        ({"within": "day"}, "within: 'day' is not one of batch, stage"),
    ],
)
def test_wrong_fields_are_named(fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ProblemError, match=wrong):
        StepProblem.of_stages([1, 2], [1, 1], [0, 0], 2, 0, **fields)
