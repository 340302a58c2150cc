"""Sequences with several stages, queries, unequal slots and memory equal exhaustive search."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.foresight.oms import staged
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequenceProblem, certify_sequence
from elastream.model.assignment import Assignment
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.certificate import certify_step

gammas = st.sampled_from([0, 0.5, 1])


@st.composite
def problems(draw: st.DrawFn) -> SequenceProblem:
    tasks = draw(st.integers(2, 4))
    sizes = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 2)))]
    nodes = max(sizes)
    stages = (0, *sorted(draw(st.integers(0, 1)) for _ in range(tasks - 1)))
    last = max(stages)
    start = [draw(st.integers(0, nodes - 1)) for _ in range(last + 1)]
    return SequenceProblem.of_stages(
        [draw(st.integers(1, 4)) for _ in range(tasks)],
        [draw(st.integers(0, 9)) for _ in range(tasks)],
        [start[stage] for stage in stages],
        [(size, draw(st.sampled_from([0.1, 0.5, 1]))) for size in sizes],
        draw(gammas),
        stages=stages,
        slots=[draw(st.integers(1, 2)) for _ in range(nodes)] if draw(st.booleans()) else (),
    )


def least(problem: SequenceProblem) -> Fraction | None:
    """Try every placement at every migration, judged by the certificate alone."""
    reached = {problem.current.nodes_of_tasks: Fraction(0)}
    weight = Fraction(1)
    for number in range(len(problem.targets)):
        nodes = problem.nodes_after(number)
        after: dict[tuple[int, ...], Fraction] = {}
        for place in product(range(nodes), repeat=len(problem.work)):
            step = problem.step(number, Assignment(place, nodes))
            if certify_step(step, step_plan(step, place), contiguous=True).faults:
                continue
            after[place] = min(
                spent
                + weight
                * Fraction(
                    sum(
                        size
                        for size, old, new in zip(problem.state, here, place, strict=True)
                        if old != new
                    )
                )
                for here, spent in reached.items()
            )
        if not after:
            return None
        reached = after
        weight *= Fraction(str(problem.gamma))
    return min(reached.values())


@given(problems(), st.booleans(), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_a_plan_costs_what_exhaustive_search_finds(
    problem: SequenceProblem, two_queries: bool, room: int
) -> None:
    if two_queries and problem.stages and max(problem.stages) == 1:
        problem = replace(problem, queries=(0, 1))
    if room > 20:
        nodes = problem.nodes_after(len(problem.targets) - 1)
        problem = replace(problem, slots=problem.slots or (1,) * nodes, memory=(room,) * nodes)
    cheapest = least(problem)
    plan = sequence(problem)
    if cheapest is None:
        assert isinstance(plan, Infeasible)
        return
    assert not isinstance(plan, Infeasible)
    assert plan.status == "optimal"
    assert Fraction(plan.weighted_cost) == cheapest
    assert certify_sequence(problem, plan).faults == ()


@given(problems())
@settings(max_examples=30, deadline=None)
def test_where_placements_are_many_the_bound_and_the_plan_are_true(
    problem: SequenceProblem,
) -> None:
    best = sequence(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged, "_FEW", 0)
        plan = sequence(problem)
    if isinstance(plan, Infeasible) or plan.status == "unbalanced":
        return
    assert not isinstance(best, Infeasible)
    assert plan.lower_bound <= best.weighted_cost <= plan.weighted_cost
    assert certify_sequence(problem, plan).faults == ()


def test_slack_belongs_to_the_batch_over_several_migrations() -> None:
    problem = SequenceProblem.of_stages(
        [50, 50, 1, 1], [100, 100, 7, 7], [0, 0, 0, 0], [(2, 0.05)], stages=[0, 0, 1, 1]
    )
    plan = sequence(problem)
    assert not isinstance(plan, Infeasible)
    assert (plan.status, plan.cost) == ("optimal", 100)
    alone = sequence(replace(problem, within="stage"))
    assert not isinstance(alone, Infeasible)
    assert (alone.status, alone.cost) == ("optimal", 107)
    assert isinstance(plan.steps[0], StepPlan)
