from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from tests.strategies import step_problems

from elastream.model.assignment import Interval
from elastream.model.migration import StepProblem
from elastream_lab.rivals.even_split import even_split


@given(step_problems(max_tasks=12, max_nodes=6))
@settings(max_examples=300)
def test_runs_differ_by_at_most_one_task_and_follow_the_node_numbers(problem: StepProblem) -> None:
    assignment = even_split(problem).assignment.nodes_of_tasks
    held = [assignment.count(node) for node in range(problem.target.nodes)]
    assert sum(held) == len(problem.work)
    assert max(held) - min(held) <= 1
    assert all(first <= second for first, second in pairwise(assignment))


def test_a_remainder_goes_to_the_first_nodes() -> None:
    plan = even_split(StepProblem.of([1] * 8, [1] * 8, [[0, 8]], 3, 1))
    assert plan.assignment.intervals == (Interval(0, 3), Interval(3, 6), Interval(6, 8))


def test_more_nodes_than_tasks_leave_the_last_nodes_idle() -> None:
    plan = even_split(StepProblem.of([1, 1], [1, 1], [[0, 2]], 4, 1))
    assert plan.assignment.nodes_of_tasks == (0, 1)
    assert plan.assignment.nodes == 4


def test_a_heavy_run_is_over_the_limit_and_the_plan_says_so() -> None:
    plan = even_split(StepProblem.of([5, 5, 1, 1], [1] * 4, [[0, 4]], 2, 0.2))
    assert (plan.status, plan.max_load) == ("unbalanced", 10)


def test_one_node_less_of_ten_moves_half_the_tasks_where_a_tenth_would_do() -> None:
    tenths = [[9 * i, 9 * i + 9] for i in range(10)]
    plan = even_split(StepProblem.of([1] * 90, [1] * 90, tenths, 9, 0.2))
    assert plan.assignment.intervals == (
        *(Interval(10 * i, 10 * i + 10) for i in range(9)),
        Interval(0, 0),
    )
    assert plan.cost == 45


def test_each_stage_is_split_by_itself() -> None:
    problem = StepProblem.of_stages(
        [1] * 6, [1] * 6, [0] * 6, nodes=2, tau=0, stages=[0, 0, 0, 0, 1, 1]
    )
    plan = even_split(problem)
    assert plan.assignment.nodes_of_tasks == (0, 0, 1, 1, 0, 1)
    assert plan.status != "unbalanced"
