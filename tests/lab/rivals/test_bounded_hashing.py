from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.migration import StepProblem
from elastream.placement.certificate import certify_step
from elastream_lab.rivals.bounded_hashing import bounded_assignment, bounded_hashing
from elastream_lab.rivals.consistent_hashing import ring_assignment, ring_order

sizes = st.integers(1, 6)
works = st.lists(st.integers(0, 20), min_size=1, max_size=20)


@given(st.integers(1, 30), sizes, st.integers(0, 1000))
@settings(max_examples=100)
def test_the_ring_meets_every_node_once_and_first_the_one_that_has_the_task(
    tasks: int, nodes: int, seed: int
) -> None:
    order = ring_order(tasks, nodes, seed, points=5)
    assert all(sorted(met) == list(range(nodes)) for met in order)
    first = tuple(met[0] for met in order)
    assert first == ring_assignment(tasks, nodes, seed, points=5).nodes_of_tasks


@given(works, sizes, st.integers(0, 1000))
@settings(max_examples=100)
def test_without_a_limit_it_is_consistent_hashing(work: list[int], nodes: int, seed: int) -> None:
    order = ring_order(len(work), nodes, seed, points=5)
    found = bounded_assignment(work, order, float(sum(work)))
    assert found == ring_assignment(len(work), nodes, seed, points=5).nodes_of_tasks


@given(st.integers(1, 40), sizes, st.floats(0, 2), st.integers(0, 1000))
@settings(max_examples=100)
def test_tasks_of_equal_work_keep_every_limit_that_can_be_kept(
    tasks: int, nodes: int, tau: float, seed: int
) -> None:
    problem = StepProblem.of([1] * tasks, [1] * tasks, [[0, tasks]], nodes, tau)
    plan = bounded_hashing(problem, seed=seed, points=5)
    if int(problem.limit) * nodes >= tasks:
        assert plan.status != "unbalanced"
    assert certify_step(problem, plan, balanced=False).faults == ()


def test_a_task_goes_on_to_the_next_node_with_room_and_else_to_the_least_loaded() -> None:
    order = [(0, 1, 2), (0, 1, 2), (0, 2, 1), (1, 0, 2)]
    assert bounded_assignment([3, 3, 2, 4], order, 5.0) == (0, 1, 0, 2)
    assert bounded_assignment([3, 3, 3, 4], order, 3.5) == (0, 1, 2, 1)
