"""Problems with several stages, queries, slots, memory and limits, against exhaustive search."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.placement.exhaustive import cheapest_within
from tests.strategies import staged_problems

from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.certificate import certify_step
from elastream.placement.even_spread import attainable, even_placement
from elastream.placement.free_step.planner import free_step
from elastream.placement.staged.piles import Piles, relieve
from elastream.placement.staged.planner import misfit
from elastream.placement.staged.program import solve, stay
from elastream.placement.staged.shedding import shed
from elastream.placement.staged.step import StagedStep


@given(staged_problems())
@settings(max_examples=settings().max_examples)
def test_free_step_equals_exhaustive_search(problem: StepProblem) -> None:
    best = cheapest_within(problem)
    plan = free_step(problem)
    if best is None:
        assert isinstance(plan, Infeasible)
        return
    assert isinstance(plan, StepPlan)
    assert certify_step(problem, plan).faults == ()
    assert plan.cost == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert plan.status == "optimal"


@given(staged_problems())
def test_without_a_program_the_bound_is_below_every_plan(problem: StepProblem) -> None:
    best = cheapest_within(problem)
    if misfit(problem) is not None:
        assert best is None
    elif best is not None:
        step = StagedStep.of(problem)
        assert shed(step).bound * step.state_unit <= Fraction(best) * (1 + Fraction(1, 10**9))


def two_stages(state: list[int], current: list[int], nodes: int, **fields: Any) -> StepProblem:
    work, stages = [3, 1, 2, 2], [0, 0, 1, 1]
    return StepProblem.of_stages(work, state, current, nodes, 0.25, stages=stages, **fields)


def test_a_stage_may_be_uneven_where_another_makes_up_for_it() -> None:
    problem = two_stages([9, 1, 4, 4], [0, 0, 0, 0], 2)
    plan = free_step(problem)
    assert isinstance(plan, StepPlan)
    assert plan.assignment.nodes_of_tasks[2] != plan.assignment.nodes_of_tasks[3]
    assert (plan.status, plan.cost, plan.batch, plan.batch_limit) == ("optimal", 5, 5, 5.0)


def test_one_stage_on_equal_slots_is_planned_as_ever() -> None:
    plain = StepProblem.of([4, 2, 2, 4, 2], [9, 1, 1, 9, 2], [0, 0, 0, 1, 1], 3, 0.3)
    slots, purpose = replace(plain, slots=(2, 2, 2)), replace(plain, most_busy=6.1)
    plan = free_step(plain)
    assert isinstance(plan, StepPlan)
    for other in (slots, purpose):
        found = free_step(other)
        assert isinstance(found, StepPlan)
        assert (found.status, found.assignment) == (plan.status, plan.assignment)
        assert certify_step(other, found).faults == ()


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (two_stages([1] * 4, [0] * 4, 2, slots=[0.5, 0.5], within="stage"), "task 0 with work 3"),
        (two_stages([5] * 4, [0] * 4, 2, memory=[9, 9]), "the state has 20 bytes"),
        (two_stages([5, 5, 2, 2], [0] * 4, 2, memory=[5, 9]), "no placement of the 4 tasks"),
        (replace(two_stages([1] * 4, [0] * 4, 2), most_busy=3.9), "work 8 on 2 slots"),
        (replace(two_stages([1] * 4, [0] * 4, 2), most_batch=(4.9,)), "a batch of query 0"),
        (replace(two_stages([1] * 4, [0] * 4, 2), slots=(0, 0)), "no node has a slot"),
        (
            replace(two_stages([1] * 4, [0] * 4, 2), lasting=frozenset({1}), seats=(1, 0)),
            "2 tasks never end and need a slot each: 1 on 2 nodes",
        ),
    ],
)
def test_what_cannot_fit_is_named(problem: StepProblem, reason: str) -> None:
    outcome = free_step(problem)
    assert isinstance(outcome, Infeasible)
    assert reason in outcome.reason


def test_the_certificate_names_each_limit_that_is_not_kept() -> None:
    problem = replace(
        two_stages([5] * 4, [0] * 4, 2, slots=[1, 2], memory=[9, 30], within="stage"), most_busy=2.5
    )
    plan = step_plan(problem, (0, 0, 1, 0))
    assert plan.status == "unbalanced"
    faults = " ".join(certify_step(problem, plan).faults)
    for name in ("a batch of query 0 takes 6.0", "4.0 of stage 0", "busy for 6.0", "15.0 bytes"):
        assert name in faults
    assert certify_step(problem, plan, balanced=False).faults == ()
    wrong = replace(plan, batch=5, batch_limit=3.0)
    assert "takes 5 of 3.0" in " ".join(certify_step(problem, wrong, balanced=False).faults)
    left = step_plan(replace(problem, slots=(0, 3)), (0, 1, 1, 1))
    assert "has no slot" in " ".join(certify_step(replace(problem, slots=(0, 3)), left).faults)


def test_tasks_that_never_end_go_where_there_are_slots() -> None:
    problem = replace(
        two_stages([9, 1, 4, 4], [0, 0, 0, 0], 2), lasting=frozenset({0}), seats=(2, 0)
    )
    crowded = step_plan(problem, (0, 1, 0, 1))
    assert crowded.status == "unbalanced"
    faults = certify_step(problem, crowded).faults
    assert "node 1 holds 1 tasks that never end, and has 0 slots" in faults
    outcome = free_step(replace(problem, target=Target(2, 1)))
    assert isinstance(outcome, StepPlan)
    assert outcome.assignment.nodes_of_tasks[:2] == (0, 0)


def test_consecutive_tasks_are_of_each_stage() -> None:
    problem = two_stages([0] * 4, [0, 1, 0, 1], 2)
    plan = step_plan(problem, (0, 1, 0, 1))
    assert certify_step(problem, plan, contiguous=True).faults == ()
    assert certify_step(replace(problem, stages=()), plan, contiguous=True, balanced=False).faults


def live(seed: int) -> StepProblem:
    """A running application of 2 to 64 nodes, 1 to 4 queries and up to 400 tasks, evenly spread.

    Its work has changed since, and nodes come or go.
    """
    rng = np.random.default_rng(seed)
    nodes, operators = int(rng.choice([2, 3, 4, 6, 8, 12, 16, 24, 32, 64])), rng.integers(1, 4, 4)
    operators = operators[: rng.integers(1, 5)]
    tasks = int(np.clip(rng.choice([4, 8, 16, 32, 64]), 1, 400 // operators.sum()))
    stages = np.repeat(np.arange(operators.sum()), tasks)
    queries = np.repeat(np.arange(len(operators)), operators)
    work = rng.lognormal(0, 1, len(queries))[stages] * rng.lognormal(0, 0.3, len(stages))
    state = rng.lognormal(15, rng.choice([0.3, 1.5]), len(stages)).astype(int)
    start = StepProblem(
        tuple(work.tolist()), tuple(state.tolist()), Assignment((0,) * len(work), nodes),
        Target(nodes, 0.1), stages=tuple(stages.tolist()), queries=tuple(queries.tolist()),
    )  # fmt: skip
    work *= rng.lognormal(0, 0.2, len(work))
    problem = replace(
        start,
        work=tuple(work.tolist()),
        current=Assignment(even_placement(start), nodes),
        target=Target(max(1, nodes + int(rng.integers(-nodes // 3, nodes // 2 + 1))), 0.15),
    )
    count, even = problem.nodes_after, float(work.sum()) / problem.target.nodes
    if rng.random() < 0.3:
        problem = replace(problem, slots=tuple(rng.choice([1, 2], count).tolist()))
    if rng.random() < 0.4:
        problem = replace(problem, most_busy=1.2 * even / float(np.mean(problem.slots or 1)))
    if rng.random() < 0.3:
        most = max(1.6 * state.sum() / problem.target.nodes, 1.1 * state.max())
        problem = replace(problem, memory=(float(most),) * count)
    return attainable(problem)


def check_live(seed: int) -> None:
    problem = live(seed)
    plan = free_step(problem, effort=100_000)
    assert isinstance(plan, StepPlan)
    balanced = plan.status != "unbalanced"
    assert balanced or problem.memory
    assert certify_step(problem, plan, balanced=balanced).faults == ()
    assert plan == free_step(problem, effort=100_000)


@pytest.mark.parametrize("seed", range(12))
def test_plans_of_live_sizes_are_certified(seed: int) -> None:
    check_live(seed)


def test_several_tasks_of_a_stage_on_each_node_are_packed_and_not_spread_anew() -> None:
    rng = np.random.default_rng(1)
    work = rng.lognormal(0, 0.5, 1200)
    stages = tuple(np.repeat(np.arange(12), 100).tolist())
    start = StepProblem(
        tuple(work.tolist()), (1,) * 1200, Assignment((0,) * 1200, 25), Target(25, 0.1),
        stages=stages, queries=tuple(stage // 3 for stage in range(12)),
    )  # fmt: skip
    current = Assignment(even_placement(start), 25)
    problem = attainable(replace(start, current=current, target=Target(30, 0.35)))
    plan = free_step(problem, effort=0)
    assert isinstance(plan, StepPlan)
    assert certify_step(problem, plan).faults == ()
    assert plan.cost <= 0.05 * len(work)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_more_plans_of_live_sizes_are_certified(seed: int) -> None:
    check_live(seed)


def several_queries(seed: int, nodes: int, after: int, tasks: int, queries: int) -> StepProblem:
    """Queries of a stage each, even in number on the nodes, with a limit on the work of each."""
    random = Random(seed)
    work = [random.uniform(0.5, 1.5) for _ in range(tasks * queries)]
    state = [random.randrange(1, 10**6) for _ in work]
    current = [task % nodes for task in range(tasks)] * queries
    stages = [query for query in range(queries) for _ in range(tasks)]
    busy = 1.15 * sum(work) / after
    problem = StepProblem.of_stages(work, state, current, after, 0.25, stages=stages)
    return replace(problem, queries=tuple(range(queries)), most_busy=busy)


@pytest.mark.parametrize("seed", range(6))
def test_the_program_of_what_stays_bounds_the_whole_program(seed: int) -> None:
    problem = several_queries(seed, 3, 4, 10, 3)
    step = StagedStep.of(problem)
    staying, bound = stay(step, effort=10**7)
    place, proven = solve(step, effort=10**7)
    assert staying is not None
    assert place is not None
    assert shed(step).bound * (1 - Fraction(1, 10**6)) <= bound <= proven == step.cost(place)


@pytest.mark.parametrize("seed", range(6))
def test_small_problems_are_proven_and_larger_ones_are_near_their_bound(seed: int) -> None:
    small, large = several_queries(seed, 3, 4, 12, 3), several_queries(seed, 12, 14, 60, 4)
    for problem, gap in (small, 0.0), (large, 0.2):
        plan = free_step(problem, effort=500_000)
        assert isinstance(plan, StepPlan)
        assert certify_step(problem, plan).faults == ()
        assert plan.cost <= plan.lower_bound * (1 + gap) * (1 + 1e-9)


def test_a_node_that_is_too_busy_exchanges_a_long_task_for_a_shorter_one() -> None:
    stages = [0, 0, 1, 1]
    problem = StepProblem.of_stages([4, 2, 3, 1], [9, 9, 5, 1], [0, 1, 0, 1], 2, 1, stages=stages)
    step = StagedStep.of(replace(problem, queries=(0, 1), most_busy=5.5))
    piles = Piles(step, step.home, np.ones(2, dtype=np.bool_))
    relieve(piles)
    assert piles.keeps()
    assert piles.place.tolist() == [0, 1, 1, 0]
