from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from tests.foresight.mtm.exact import Cut, exact_values, moved, serves, transition_problems

from elastream.foresight.mtm.growth import GrowthSettings
from elastream.foresight.mtm.planner import TransitionPlanner, transition
from elastream.foresight.mtm.problem import (
    MigrationChain,
    ProjectionProblem,
    TransitionPlan,
    TransitionProblem,
)
from elastream.foresight.mtm.values import PartitionValues, partition_values
from elastream.foresight.ssm.single_step import single_step
from elastream.model.checks import Number
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step

POOLED = GrowthSettings(most_listed=0, pool=60, parents=10, rounds=2)


def cut_of(nodes: tuple[int, ...]) -> Cut:
    return (0, *(j + 1 for j, (a, b) in enumerate(pairwise(nodes)) if a != b), len(nodes))


def projection(problem: TransitionProblem) -> tuple[ProjectionProblem, int]:
    """Return what the plan's values are for, the part of the chain that can be reached.

    And the state in it that the migration leads to.
    """
    states = problem.chain.reachable(problem.state)
    step = problem.step
    chain = problem.chain.restricted(states)
    future = ProjectionProblem(step.work, step.state, step.target.tau, chain)
    return future, states.index(problem.state)


@given(transition_problems())
@settings(max_examples=250)
def test_a_plan_is_valid_and_has_the_least_cost_now_and_later(problem: TransitionProblem) -> None:
    outcome, greedy = transition(problem), single_step(problem.step)
    if isinstance(greedy, Infeasible):
        assert outcome == greedy
        return
    future, state = projection(problem)
    reached = [
        any(serves(cut, n, future.work, future.tau) for cut in all_cuts(len(future.work)))
        for n in future.chain.sizes
    ]
    if isinstance(outcome, Infeasible):
        assert not all(reached)
        return
    assert certify_step(problem.step, outcome.step, contiguous=True).faults == ()
    if not all(reached):
        assert problem.chain.gamma == 0
        assert outcome.step.cost == greedy.cost
        return
    exact = exact_values(future)
    current = cut_of(problem.step.current.nodes_of_tasks)
    size = problem.step.target.nodes
    best = min(
        moved(future.state, current, cut) + future.chain.gamma * value
        for (z, cut), value in exact.items()
        if z == state and serves(cut, size, future.work, future.tau)
    )
    chosen = cut_of(outcome.step.assignment.nodes_of_tasks)
    assert outcome.status == "optimal"
    assert outcome.projected is not None
    assert outcome.projected == pytest.approx(exact[state, chosen], rel=1e-7, abs=1e-7)
    total = outcome.step.cost + future.chain.gamma * outcome.projected
    assert total == pytest.approx(best, rel=1e-7, abs=1e-7)


def all_cuts(tasks: int) -> list[Cut]:
    from tests.foresight.mtm.exact import cuts

    return list(cuts(tasks))


@given(transition_problems())
@settings(max_examples=150)
def test_a_gamma_of_zero_costs_what_single_step_costs(problem: TransitionProblem) -> None:
    chain = problem.chain
    blind = MigrationChain(chain.sizes, chain.matrix, 0.0, chain.directions)
    greedy = single_step(problem.step)
    for setting in (GrowthSettings(), POOLED):
        outcome = transition(
            TransitionProblem(problem.step, blind, problem.state), settings=setting
        )
        if isinstance(greedy, Infeasible):
            assert outcome == greedy
        else:
            assert isinstance(outcome, TransitionPlan)
            assert outcome.step.cost == pytest.approx(greedy.cost)


@given(transition_problems(max_tasks=5))
@settings(max_examples=100)
def test_no_policy_of_single_steps_is_expected_to_move_less(problem: TransitionProblem) -> None:
    future, state = projection(problem)
    values = partition_values(future)
    if isinstance(values, Infeasible):
        return
    planner = TransitionPlanner(values)
    aware = planner.plan_to(problem.step, state)
    assert isinstance(aware, TransitionPlan)
    assert aware.projected is not None
    greedy = discounted_cost_of_single_steps(problem.step, future, state)
    assert aware.step.cost + values.problem.chain.gamma * aware.projected <= greedy + 1e-6


def discounted_cost_of_single_steps(
    step: StepProblem, problem: ProjectionProblem, state: int
) -> float:
    """Return what single-step is expected to move, now and later, by valuing its own choices."""
    chain = problem.chain
    known: dict[tuple[Cut, int], tuple[float, Cut]] = {}

    def after(cut: Cut, size: int) -> tuple[float, Cut]:
        if (cut, size) not in known:
            again = StepProblem.of(step.work, step.state, list(pairwise(cut)), size, problem.tau)
            plan = single_step(again)
            assert isinstance(plan, StepPlan)
            known[cut, size] = float(plan.cost), cut_of(plan.assignment.nodes_of_tasks)
        return known[cut, size]

    first = single_step(step)
    assert isinstance(first, StepPlan)
    begin = (state, cut_of(first.assignment.nodes_of_tasks))
    states = [begin]
    for _, cut in states:
        for y, size in enumerate(chain.sizes):
            follower = (y, after(cut, size)[1])
            if follower not in states:
                states.append(follower)
    paid = np.zeros(len(states))
    moves = np.zeros((len(states), len(states)))
    for row, (z, cut) in enumerate(states):
        for y, (size, odds) in enumerate(zip(chain.sizes, chain.matrix[z], strict=True)):
            cost, target = after(cut, size)
            paid[row] += odds * cost
            moves[row, states.index((y, target))] += odds
    values = np.linalg.solve(np.eye(len(states)) - chain.gamma * moves, paid)
    return float(first.cost) + chain.gamma * float(values[0])


def large(tau: float = 0.4, gamma: float = 0.8) -> ProjectionProblem:
    """Thirty tasks: far too many partitions to list."""
    random = np.random.default_rng(3)
    sizes = [4, 5, 6, 7, 8]
    matrix = random.random((5, 5))
    np.fill_diagonal(matrix, 0)
    chain = MigrationChain.of(sizes, matrix / matrix.sum(axis=1, keepdims=True), gamma)
    work, state = random.integers(10, 60, (2, 30)).tolist()
    return ProjectionProblem.of(work, state, tau, chain)


@pytest.fixture(scope="module")
def planner() -> TransitionPlanner:
    settings = GrowthSettings(most_listed=4000, pool=300, parents=40, rounds=3)
    values = partition_values(large(), settings=settings)
    assert isinstance(values, PartitionValues)
    assert not values.complete
    return TransitionPlanner(values)


def step_of(
    problem: ProjectionProblem, cut: Cut, nodes: int, work: list[Number] | None = None
) -> StepProblem:
    return StepProblem.of(
        work or problem.work, problem.state, list(pairwise(cut)), nodes, problem.tau
    )


def test_plans_from_stored_values_are_valid_and_close_to_single_step_over_a_walk(
    planner: TransitionPlanner,
) -> None:
    problem, random = large(), np.random.default_rng(1)
    cut: Cut = (0, 8, 15, 22, 30)
    spent = greedy_spent = 0.0
    greedy_cut = cut
    for nodes in random.choice([4, 5, 6, 7, 8], 60).tolist():
        step, greedy_step = step_of(problem, cut, nodes), step_of(problem, greedy_cut, nodes)
        plan, greedy = planner.plan(step), single_step(greedy_step)
        assert isinstance(plan, TransitionPlan)
        assert isinstance(greedy, StepPlan)
        assert plan.status == "feasible"
        assert certify_step(step, plan.step, contiguous=True).faults == ()
        spent, greedy_spent = spent + plan.step.cost, greedy_spent + greedy.cost
        cut = cut_of(plan.step.assignment.nodes_of_tasks)
        greedy_cut = cut_of(greedy.assignment.nodes_of_tasks)
    assert spent < greedy_spent


def test_where_the_current_partition_serves_nothing_moves(planner: TransitionPlanner) -> None:
    problem = large()
    cut: Cut = (0, 8, 15, 22, 30)
    first = planner(step_of(problem, cut, 4))
    assert isinstance(first, StepPlan)
    again = StepProblem.of(problem.work, problem.state, first.assignment, 4, problem.tau)
    second = planner(again)
    assert isinstance(second, StepPlan)
    assert (second.cost, second.moves) == (0, ())


def test_work_and_state_may_have_drifted_since_the_values_were_made(
    planner: TransitionPlanner,
) -> None:
    problem, random = large(), np.random.default_rng(2)
    cut: Cut = (0, 8, 15, 22, 30)
    for nodes in (8, 5, 7, 4, 6):
        work = (np.array(problem.work) * random.uniform(0.7, 1.4, 30)).round().astype(int).tolist()
        state = [2 * size for size in problem.state]
        step = StepProblem.of(work, state, list(pairwise(cut)), nodes, problem.tau)
        plan = planner.plan(step)
        assert isinstance(plan, TransitionPlan)
        assert certify_step(step, plan.step, contiguous=True).faults == ()
        cut = cut_of(plan.step.assignment.nodes_of_tasks)


def test_a_size_that_the_chain_does_not_know_is_planned_as_a_single_step(
    planner: TransitionPlanner,
) -> None:
    step = step_of(large(), (0, 8, 15, 22, 30), 3)
    assert planner(step) == single_step(step)
    with pytest.raises(ProblemError, match="nodes: 3 is not among"):
        planner.plan(step)


def test_other_tasks_than_the_values_are_for_are_planned_as_a_single_step(
    planner: TransitionPlanner,
) -> None:
    step = StepProblem.of([1] * 5, [1] * 5, [[0, 5]], 4, 0.4)
    assert planner(step) == single_step(step)
    with pytest.raises(ProblemError, match="has 5 tasks where the values are for 30"):
        planner.plan(step)


def test_why_a_migration_is_planned_as_a_single_step_is_reported(
    planner: TransitionPlanner,
) -> None:
    cut: Cut = (0, 8, 15, 22, 30)
    others = StepProblem.of([1] * 5, [1] * 5, [[0, 5]], 4, 0.4)
    assert planner.why_single_step(step_of(large(), cut, 5)) is None
    assert planner.why_single_step(step_of(large(), cut, 3)) == "has no values for 3 nodes"
    assert planner.why_single_step(others) == "has values for 30 tasks, not for 5"


def test_a_migration_that_cannot_fit_says_what_single_step_says(planner: TransitionPlanner) -> None:
    problem = large()
    heavy = [*problem.work[:-1], 10_000]
    step = step_of(problem, (0, 8, 15, 22, 30), 8, heavy)
    outcome = planner(step)
    assert isinstance(outcome, Infeasible)
    assert outcome == single_step(step)


def test_tasks_that_are_not_consecutive_are_refused() -> None:
    chain = MigrationChain.of([2], [[1]], 0.5)
    step = StepProblem.of([1, 1, 1], [1, 1, 1], [0, 1, 0], 2, 0.4)
    with pytest.raises(ProblemError, match="not consecutive"):
        transition(TransitionProblem.of(step, chain))


def test_a_chain_with_directions_knows_which_way_a_migration_goes() -> None:
    sizes, ways = [1, 2, 2, 3], ["down", "up", "down", "up"]
    rows = [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]]
    chain = MigrationChain.of(sizes, rows, 0.9, ways)
    work = [1] * 6
    rising = StepProblem.of(work, work, [[0, 6]], 2, 0.0)
    assert TransitionProblem.of(rising, chain).state == 1
    falling = StepProblem.of(work, work, [[0, 2], [2, 4], [4, 6]], 2, 0.0)
    assert TransitionProblem.of(falling, chain).state == 2
    assert TransitionProblem.of(falling, chain, "up").state == 1
