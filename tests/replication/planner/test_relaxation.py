from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.planner.generated import deployments, generated

from elastream.model.plan import Infeasible
from elastream.replication.planner import elimination
from elastream.replication.planner.configurations import Floats
from elastream.replication.planner.elimination import (
    Effort,
    Factor,
    elimination_order,
    least_over_others,
)
from elastream.replication.planner.evaluation import evaluate
from elastream.replication.planner.exact import objective_of
from elastream.replication.planner.forms import Form, longest_paths, objective_forms
from elastream.replication.planner.instance import Instance, instance_of
from elastream.replication.planner.relaxation import drawn_bounds, relaxed_bounds
from elastream.replication.planner.symmetry import interchangeable

seeds = st.integers(0, 2**40)


@pytest.mark.parametrize("bounds_of", [drawn_bounds, relaxed_bounds])
@given(seeds)
@settings(max_examples=150)
def test_no_deployment_is_below_the_bound_of_a_configuration_in_it(
    bounds_of: Callable[[Instance, list[Form], Effort], list[Floats]], seed: int
) -> None:
    problem = generated(seed)
    instance = instance_of(problem)
    if isinstance(instance, Infeasible):
        return
    goal = objective_of(problem)
    forms = objective_forms(instance, goal, longest_paths(instance))
    bounds = bounds_of(instance, forms, Effort(0))
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    for deployment in deployments(problem):
        worth = evaluate(problem, deployment)
        if worth.faults or worth.objective is None:
            continue
        moved = worth.objective - goal.downtime * worth.downtime_ms
        for name, domain, bound in zip(instance.names, instance.domains, bounds, strict=True):
            count = np.bincount([number[u] for u in deployment[name]], minlength=len(number))
            row = int(np.flatnonzero((domain.count == count).all(axis=1))[0])
            assert bound[:, row].max() <= moved + 1e-9


@given(seeds)
@settings(max_examples=150)
def test_a_replica_drawn_of_every_operator_bounds_no_tighter(seed: int) -> None:
    problem = generated(seed)
    instance = instance_of(problem)
    if isinstance(instance, Infeasible):
        return
    forms = objective_forms(instance, objective_of(problem), longest_paths(instance))
    drawn = drawn_bounds(instance, forms, Effort(0))
    for cheap, dear in zip(drawn, relaxed_bounds(instance, forms, Effort(0)), strict=True):
        assert (cheap <= dear + 1e-9).all()


def brute(factors: list[Factor], sizes: list[int], kept: int) -> list[float]:
    least = [np.inf] * sizes[kept]
    for values in product(*(range(size) for size in sizes)):
        total = sum(float(f.table[tuple(values[v] for v in f.scope)]) for f in factors)
        least[values[kept]] = min(least[values[kept]], total)
    return least


def least_of(factors: list[Factor], sizes: list[int], kept: int) -> Floats:
    order = elimination_order([factor.scope for factor in factors], sizes, kept)
    assert sorted([*order, kept]) == list(range(len(sizes)))
    return least_over_others(factors, order, sizes, kept, {}, Effort(0))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Factor], list[int], int]:
    rng = np.random.default_rng(draw(seeds))
    sizes = rng.integers(1, 4, size=rng.integers(1, 5)).tolist()
    factors = [Factor((v,), rng.random(size)) for v, size in enumerate(sizes)]
    pairs = [(u, v) for v in range(len(sizes)) for u in range(v) if rng.random() < 0.6]
    factors += [Factor((u, v), rng.random((sizes[u], sizes[v]))) for u, v in pairs]
    return factors, sizes, int(rng.integers(len(sizes)))


@given(tables())
@settings(max_examples=150)
def test_elimination_finds_the_least_sum(case: tuple[list[Factor], list[int], int]) -> None:
    assert least_of(*case).tolist() == pytest.approx(brute(*case))


@given(tables())
@settings(max_examples=150)
def test_elimination_in_groups_is_still_a_lower_bound(
    case: tuple[list[Factor], list[int], int],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "_LARGEST", 6)
        bound = least_of(*case)
    assert (bound <= np.array(brute(*case)) + 1e-9).all()


@given(seeds)
@settings(max_examples=150)
def test_interchangeable_nodes_can_be_swapped_in_any_deployment(seed: int) -> None:
    problem = generated(seed)
    names = [node.name for node in problem.nodes]
    for members in interchangeable(problem):
        swap = {names[members[0]]: names[members[-1]], names[members[-1]]: names[members[0]]}
        for deployment in list(deployments(problem))[:20]:
            other = {o: tuple(swap.get(u, u) for u in us) for o, us in deployment.items()}
            one, two = evaluate(problem, deployment), evaluate(problem, other)
            assert one.cost == pytest.approx(two.cost)
            assert one.response_ms == pytest.approx(two.response_ms)
            assert one.downtime_ms == pytest.approx(two.downtime_ms)
            assert len(one.faults) == len(two.faults)
