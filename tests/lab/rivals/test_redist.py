from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import step_problems

from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream_lab.rivals.redist import redist


def placed_by_definition(problem: StepProblem, weight: int) -> tuple[int, ...]:
    """Place the tasks by the penalties as the module defines them, every node tried."""
    loads = [Fraction(0)] * problem.target.nodes
    moved = Fraction(0)
    placed = list(problem.current.nodes_of_tasks)
    for task in sorted(range(len(placed)), key=lambda j: (-problem.work[j], j)):
        home, work = placed[task], Fraction(problem.work[task])
        ranked = []
        for node, load in enumerate(loads):
            moved_then = moved + Fraction(problem.state[task]) * (node != home)
            after = [*loads[:node], load + work, *loads[node + 1 :]]
            ranked.append((penalty(problem, after, moved_then, weight), node != home, load, node))
        best = min(ranked)[-1]
        loads[best] += work
        moved += Fraction(problem.state[task]) * (best != home)
        placed[task] = best
    return tuple(placed)


def penalty(problem: StepProblem, loads: list[Fraction], moved: Fraction, weight: int) -> Fraction:
    mean = sum(loads, Fraction(0)) / len(loads)
    if not mean:
        return Fraction(0)
    ideal = sum(map(Fraction, problem.state), Fraction(0)) / len(loads)
    migration = moved / ideal if ideal else Fraction(0)
    return (max(loads) - min(loads)) / mean + weight * Fraction(problem.target.tau) * migration


@st.composite
def whole_problems(draw: st.DrawFn) -> StepProblem:
    tasks, before = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    amounts = st.lists(st.integers(0, 6), min_size=tasks, max_size=tasks)
    current = st.lists(st.integers(0, before - 1), min_size=tasks, max_size=tasks)
    nodes, tau = st.integers(1, 5), st.sampled_from([0, 0.125, 0.5, 1, 3])
    return StepProblem.of(draw(amounts), draw(amounts), draw(current), draw(nodes), draw(tau))


@given(whole_problems(), st.sampled_from([0, 1, 4]))
@settings(max_examples=300)
def test_each_task_goes_to_the_node_of_least_penalty(problem: StepProblem, weight: int) -> None:
    plan = redist(problem, weight=weight)
    assert plan.assignment.nodes_of_tasks == placed_by_definition(problem, weight)


def test_without_tolerance_the_heaviest_tasks_are_spread_first() -> None:
    problem = StepProblem.of([4, 3, 3, 2], [9] * 4, [[0, 4]], 2, 0)
    assert redist(problem).assignment.nodes_of_tasks == (0, 1, 1, 0)


def test_even_a_balanced_assignment_may_be_placed_anew() -> None:
    problem = StepProblem.of([2] * 6, [1] * 6, [[0, 2], [2, 4], [4, 6]], 3, 0.2)
    plan = redist(problem)
    assert (plan.max_load, plan.cost) == (4, 3)


def test_tasks_of_nodes_that_leave_are_placed_on_the_lower_numbers() -> None:
    problem = StepProblem.of([1] * 6, [1] * 6, [[0, 2], [2, 4], [4, 6]], 2, 0.2)
    assert set(redist(problem).assignment.nodes_of_tasks) == {0, 1}


@given(step_problems(max_tasks=10))
@settings(max_examples=300)
def test_where_migration_is_dear_no_state_leaves_a_node_that_stays(problem: StepProblem) -> None:
    plan = redist(problem, weight=10**9)
    left = [m for m in plan.moves if m.source < problem.target.nodes and m.state]
    assert problem.target.tau == 0 or left == []


def test_a_higher_weight_never_moved_more_on_skewed_examples() -> None:
    work = [40, 30, 20, 10, 9, 8, 7, 6, 5, 4, 3, 2]
    problem = StepProblem.of(work, work, [[0, 3], [3, 7], [7, 12]], 4, 0.4)
    costs = [redist(problem, weight=weight).cost for weight in (0, 1, 10, 1000)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ProblemError, match="weight"):
        redist(StepProblem.of([1], [1], [[0, 1]], 1, 0), weight=-1)
