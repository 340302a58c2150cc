from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.planner.generated import expect_the_best, generated

from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.replication.planner.evaluation import evaluate
from elastream.replication.planner.exact import replication
from elastream_lab.studies.replication.milp import replication_milp

seeds = st.integers(0, 2**40)


@settings(max_examples=min(1000, settings().max_examples))
@given(seeds)
def test_the_plan_is_as_good_as_exhaustive_search(seed: int) -> None:
    problem = generated(seed)
    expect_the_best(problem, seed)


@given(seeds)
@settings(max_examples=100)
def test_the_plan_says_what_the_evaluation_says(seed: int) -> None:
    problem = generated(seed, most_nodes=6, most_operators=6, most=10**9)
    plan = replication(problem)
    if isinstance(plan, Infeasible):
        return
    worth = evaluate(problem, plan.deployment)
    assert worth.faults == ()
    assert plan.gap == 0
    assert (plan.objective, plan.response_ms, plan.cost, plan.downtime_ms) == (
        worth.objective,
        worth.response_ms,
        worth.cost,
        worth.downtime_ms,
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_plan_is_as_good_as_the_integer_program_on_medium_problems(seed: int) -> None:
    problem = generated(seed, most_nodes=5, most_operators=5, most=10**6)
    plan, program = replication(problem), replication_milp(problem)
    if isinstance(program, Infeasible):
        assert isinstance(plan, Infeasible)
        return
    assert program is not None
    assert not isinstance(plan, Infeasible), plan.reason
    assert plan.objective == pytest.approx(program.objective, rel=1e-6, abs=1e-9)


@given(seeds)
@settings(max_examples=100)
def test_the_restricted_plan_is_never_better(seed: int) -> None:
    problem = generated(seed)
    if problem.current is None:
        return
    free = replication(replace(problem, restricted=False))
    restricted = replication(replace(problem, restricted=True))
    if isinstance(restricted, Infeasible):
        return
    assert not isinstance(free, Infeasible)
    assert free.objective <= restricted.objective + 1e-9


@given(seeds, st.integers(0, 600_000))
@settings(max_examples=60)
def test_out_of_effort_the_bound_is_still_proven(seed: int, effort: int) -> None:
    problem = generated(seed, most_nodes=6, most_operators=6, most=10**9)
    try:
        plan = replication(problem, effort=effort)
    except ProblemError:  # neither found nor ruled out: more effort is asked for
        return
    best = replication(problem)
    if isinstance(plan, Infeasible) or isinstance(best, Infeasible):
        assert plan.status == best.status
        return
    assert plan.lower_bound <= best.objective + 1e-9
    assert best.objective <= plan.objective + 1e-9
    assert plan.gap >= 0
    assert (plan.status == "optimal") == (plan.gap == 0)


@given(seeds)
@settings(max_examples=100)
def test_the_order_of_nodes_and_operators_does_not_matter(seed: int) -> None:
    problem = generated(seed)
    draw = Random(seed)
    order = draw.sample(range(len(problem.nodes)), len(problem.nodes))
    links = problem.links
    local = problem.local_bytes_per_s
    shuffled = replace(
        problem,
        operators=tuple(draw.sample(problem.operators, len(problem.operators))),
        streams=tuple(draw.sample(problem.streams, len(problem.streams))),
        nodes=tuple(problem.nodes[u] for u in order),
        links=replace(
            links,
            delay_ms=tuple(tuple(links.delay_ms[u][v] for v in order) for u in order),
            cost=tuple(tuple(links.cost[u][v] for v in order) for u in order),
        ),
        datastore=replace(
            problem.datastore,
            delay_ms=tuple(problem.datastore.delay_ms[u] for u in order),
            bytes_per_s=tuple(problem.datastore.bytes_per_s[u] for u in order),
        ),
        local_bytes_per_s=None if local is None else tuple(local[u] for u in order),
    )
    plan, other = replication(problem), replication(shuffled)
    if isinstance(plan, Infeasible) or isinstance(other, Infeasible):
        assert plan.status == other.status
    else:
        assert plan.objective == pytest.approx(other.objective, rel=1e-9, abs=1e-9)
