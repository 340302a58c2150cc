"""Prices of nodes: paid once a node, and never bounded from above by what is certain of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.planner.generated import deployments, expect_the_best, generated
from tests.replication.planner.test_evaluation import CHAIN

from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.replication.model.problem import (
    Bounds,
    Datastore,
    Links,
    Node,
    ReplicationProblem,
    Weights,
)
from elastream.replication.planner.configurations import Ints
from elastream.replication.planner.evaluation import evaluate
from elastream.replication.planner.exact import replication
from elastream.replication.planner.instance import Instance, instance_of
from elastream.replication.planner.rent import Rent
from elastream.replication.planner.symmetry import interchangeable

seeds = st.integers(0, 2**40)
_APART = ((0, 1, 1), (1, 0, 1), (1, 1, 0))
ALIKE = replace(
    CHAIN,
    nodes=tuple(Node(name, 2) for name in "abc"),
    links=Links(delay_ms=_APART, cost=((0, 0, 0),) * 3),
    datastore=Datastore((5,) * 3, (10_000,) * 3),
    bounds=Bounds(200, 20, 1e6),
)


def priced(problem: ReplicationProblem, *prices: float) -> ReplicationProblem:
    pairs = zip(problem.nodes, prices, strict=True)
    return replace(problem, nodes=tuple(replace(node, price=price) for node, price in pairs))


def test_a_node_is_paid_once_however_many_replicas_and_operators_share_it() -> None:
    dear = priced(CHAIN, 3, 0.5, 7)
    for deployment, rent in (
        ({"source": ("a",), "count": ("a",)}, 3),
        ({"source": ("a",), "count": ("a", "a")}, 3),
        ({"source": ("a",), "count": ("a", "b")}, 3.5),
        ({"source": ("b",), "count": ("a", "c")}, 10.5),
    ):
        free = evaluate(CHAIN, deployment).cost
        assert evaluate(dear, deployment).cost == pytest.approx(free + rent)


def test_the_rent_counts_for_the_objective_and_for_the_bound() -> None:
    deployment = {"source": ("a",), "count": ("c",)}
    free, dear = evaluate(CHAIN, deployment), evaluate(priced(CHAIN, 10, 0, 10), deployment)
    assert free.objective is not None
    assert dear.objective == pytest.approx(free.objective + 0.5 * 20 / 20)
    assert dear.faults == (f"cost is {free.cost + 20:g}, above the bound 20",)


def test_a_price_decides_how_many_nodes_are_used() -> None:
    apart = replace(ALIKE, distinct=True, bounds=Bounds(200, 40, 1e6))
    assert [len(nodes_of(priced(apart, price, price, price))) for price in (0, 5, 19)] == [2, 2, 1]


def test_of_nodes_that_are_alike_the_cheapest_is_used() -> None:
    assert nodes_of(priced(ALIKE, 0.3, 0.2, 0.4)) == {"b"}


def test_nodes_of_different_prices_are_not_interchangeable() -> None:
    assert interchangeable(priced(ALIKE, 2, 2, 2)) == [[0, 1, 2]]
    assert interchangeable(priced(ALIKE, 2, 3, 2)) == [[0, 2]]


def test_a_rent_that_no_bound_allows_is_named_with_the_least_cost() -> None:
    plan = replication(replace(priced(CHAIN, 9, 9, 9), bounds=Bounds(200, 5, 10_000)))
    assert isinstance(plan, Infeasible)
    assert plan.reason == (
        "the bound cost is 5, and no deployment that fits the nodes costs less than 11 an hour"
    )


def test_the_current_deployment_stays_where_another_saves_no_rent() -> None:
    settled = replace(ALIKE, weights=Weights(0, 1, 0), current={"source": ("b",), "count": ("b",)})
    for prices, place in (((1, 1, 1), "b"), ((1, 0.9, 1), "b"), ((1, 1, 0.9), "c")):
        assert nodes_of(priced(settled, *prices)) == {place}


@pytest.mark.parametrize("price", [-1, float("nan"), float("inf"), "1", None, True])
def test_a_price_that_is_no_amount_is_refused_by_its_path(price: float) -> None:
    with pytest.raises(ProblemError, match=r"^nodes\[1\].price: "):
        priced(CHAIN, 0, price, 0)


@given(seeds)
@settings(max_examples=150)
def test_what_is_certain_of_the_rent_is_never_more_than_the_rent(seed: int) -> None:
    problem = generated(seed)
    instance = instance_of(problem)
    if isinstance(instance, Infeasible):
        return
    rent, last = Rent(instance), len(instance.domains)
    for rows in allowed_rows(problem, instance):
        counts = [domain.count[row] for domain, row in zip(instance.domains, rows, strict=True)]
        used = np.array([d.taken[row] for d, row in zip(instance.domains, rows, strict=True)])
        total = float(rent.paid(np.any(counts, axis=0)[None])[0])
        for t in range(last + 1):
            occupied = np.any([np.zeros_like(counts[0]), *counts[:t]], axis=0)[None]
            certain = rent.least(rent.rest(range(t, last)), occupied, used[:t].sum(axis=0)[None])
            assert certain[0] <= total + 1e-12
        assert certain[0] == pytest.approx(total)


@given(seeds)
@settings(max_examples=300)
def test_the_plan_is_as_good_as_exhaustive_search_where_operators_share_nodes(seed: int) -> None:
    problem = generated(seed, most=250)
    roomy = tuple(replace(n, resources=3 * n.resources, price=n.price + 0.5) for n in problem.nodes)
    problem = replace(problem, nodes=roomy)
    expect_the_best(problem, seed)


def nodes_of(problem: ReplicationProblem) -> set[str]:
    plan = replication(problem)
    assert not isinstance(plan, Infeasible), plan.reason
    assert plan.status == "optimal"
    return {node for replicas in plan.deployment.values() for node in replicas}


def allowed_rows(problem: ReplicationProblem, instance: Instance) -> Iterator[list[Ints]]:
    """Yield the row of each operator's configuration, for the deployments that fit the nodes."""
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    for deployment in deployments(problem):
        places = [[number[node] for node in deployment[name]] for name in instance.names]
        counts = [np.bincount(each, minlength=len(number)) for each in places]
        rows = [
            np.flatnonzero((domain.count == count).all(axis=1))
            for domain, count in zip(instance.domains, counts, strict=True)
        ]
        if not all(len(row) for row in rows):
            continue
        taken = [d.taken[row[0]] for d, row in zip(instance.domains, rows, strict=True)]
        if (np.sum(taken, axis=0) <= instance.capacity).all():
            yield [row[0] for row in rows]
