from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import step_problems

from elastream.model.assignment import Assignment
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream_lab.rivals.consistent_hashing import (
    average_cost,
    consistent_hashing,
    ring_assignment,
)

seeds = st.integers(-(2**70), 2**70)


def test_places_on_the_ring_are_the_same_on_every_machine() -> None:
    assert ring_assignment(12, 3, seed=7) == Assignment((1, 2, 1, 2, 1, 0, 0, 1, 1, 0, 1, 0), 3)


def test_a_task_belongs_to_the_first_point_at_or_after_it_going_round() -> None:
    def place(label: str) -> int:
        return int(blake2b(label.encode(), digest_size=8).hexdigest(), 16)

    points = {place(f"5/node {node}/{point}"): node for node in range(3) for point in range(2)}
    distance = [
        {
            (place_of_point - place(f"5/task {task}")) % 2**64: node
            for place_of_point, node in points.items()
        }
        for task in range(40)
    ]
    nearest = tuple(nodes[min(nodes)] for nodes in distance)
    assert ring_assignment(40, 3, seed=5, points=2).nodes_of_tasks == nearest


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 4), seeds)
@settings(max_examples=200)
def test_a_node_that_joins_takes_tasks_only_to_itself(
    tasks: int, nodes: int, added: int, seed: int
) -> None:
    before = ring_assignment(tasks, nodes, seed, points=5).nodes_of_tasks
    after = ring_assignment(tasks, nodes + added, seed, points=5).nodes_of_tasks
    assert all(new == old or new >= nodes for old, new in zip(before, after, strict=True))


@given(st.integers(1, 40), st.integers(2, 6), seeds)
@settings(max_examples=200)
def test_a_node_that_leaves_gives_up_only_its_own_tasks(tasks: int, nodes: int, seed: int) -> None:
    start = ring_assignment(tasks, nodes, seed)
    problem = StepProblem.of([1] * tasks, [1] * tasks, start, nodes - 1, 0.4)
    moved = {move.source for move in consistent_hashing(problem, seed=seed).moves}
    assert moved <= {nodes - 1}


@given(step_problems(), seeds, st.integers(1, 8))
@settings(max_examples=200)
def test_the_ring_alone_decides_where_tasks_are(
    problem: StepProblem, seed: int, points: int
) -> None:
    plan = consistent_hashing(problem, seed=seed, points=points)
    ring = ring_assignment(len(problem.work), problem.target.nodes, seed, points=points)
    assert plan.assignment == ring.widened(problem.nodes_after)


def test_seeds_give_different_rings() -> None:
    assert len({ring_assignment(30, 4, seed) for seed in range(20)}) == 20


def test_more_points_share_the_ring_more_evenly() -> None:
    def largest_share(points: int) -> int:
        return max(Counter(ring_assignment(4000, 10, points=points).nodes_of_tasks).values())

    assert largest_share(200) < 1.3 * 400 < largest_share(1)


def test_the_average_starts_every_run_on_its_own_ring() -> None:
    problem = StepProblem.of([1] * 64, [3] * 64, [[0, 64], *[[0, 0]] * 9], 8, 1.2)
    costs = [
        sum(
            3
            for before, after in zip(
                ring_assignment(64, 10, seed).nodes_of_tasks,
                ring_assignment(64, 8, seed).nodes_of_tasks,
                strict=True,
            )
            if before != after
        )
        for seed in range(100)
    ]
    assert average_cost(problem) == sum(costs) / 100


def test_on_average_a_ring_that_loses_two_of_ten_nodes_moves_a_fifth_of_the_state() -> None:
    problem = StepProblem.of([1] * 64, [1] * 64, [[0, 64], *[[0, 0]] * 9], 8, 1.2)
    assert average_cost(problem) / 64 == pytest.approx(0.2, abs=0.02)


def test_heavy_tasks_may_end_on_one_node_and_the_plan_says_so() -> None:
    """Appendix A of paper 001: twelve tasks, two of them twice as heavy, two nodes."""
    work = [2, 2, *[1] * 10]
    problem = StepProblem.of(work, [1] * 12, [[0, 12]], 2, 0.1)
    plans = [consistent_hashing(problem, seed=seed) for seed in range(50)]
    together = [plan for plan in plans if len(set(plan.assignment.nodes_of_tasks[:2])) == 1]
    assert {plan.status for plan in together} >= {"unbalanced"}


@pytest.mark.parametrize(("nodes", "points", "field"), [(0, 1, "nodes"), (1, 0, "points")])
def test_a_ring_without_points_is_refused(nodes: int, points: int, field: str) -> None:
    with pytest.raises(ProblemError) as refused:
        ring_assignment(1, nodes, points=points)
    assert refused.value.field == field
