"""What a stream between nodes costs is reported in full, whatever the placement.

The truth is computed here stream by stream, from rates and selectivities, and shares nothing with
the planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.resilience.planner.problems import space_of

from elastream.model.plan import Infeasible
from elastream.resilience.model.graph import GraphOperator, QueryGraph
from elastream.resilience.model.problem import Arc, ResilientPlan, ResilientProblem
from elastream.resilience.planner.load_model import linear_load
from elastream.resilience.planner.packing_at_bound import packing_at_bound
from elastream.resilience.planner.planner import Method, describe, resilient

CAPACITY = (1.0, 1.0, 2.0)


def joined_after_unknown(transfer_cost: float) -> QueryGraph:
    """Only a join reads what f puts out, so that no load depends on its rate."""
    return QueryGraph.of(
        ["I", "J"],
        [
            GraphOperator.of("f", ["I"], 1, None),
            GraphOperator.of("j", ["f", "J"], 1, 0.5, kind="join", window=1),
        ],
        transfer_cost,
    )


def streams_of(graph: QueryGraph, rates: Mapping[str, float], unknown: float) -> dict[str, float]:
    """Return the rate of every stream; ``unknown`` replaces selectivities that are not given."""
    streams = dict(rates)
    waiting = list(graph.operators)
    while waiting:
        operator = waiting.pop(0)
        if not all(name in streams for name in operator.inputs):
            waiting.append(operator)
            continue
        selectivity = unknown if operator.selectivity is None else operator.selectivity
        streams[operator.name] = selectivity * handled(operator, streams)
    return streams


def handled(operator: GraphOperator, streams: Mapping[str, float]) -> float:
    read = [streams[name] for name in operator.inputs]
    return sum(read) if operator.window is None else operator.window * read[0] * read[1]


def true_loads(
    graph: QueryGraph, streams: Mapping[str, float], allocation: Sequence[int], nodes: int
) -> list[float]:
    """Return the load of each node: its operators', and its end of every stream that crosses."""
    loads = [0.0] * nodes
    home = {operator.name: allocation[j] for j, operator in enumerate(graph.operators)}
    for operator in graph.operators:
        here = home[operator.name]
        loads[here] += operator.cost * handled(operator, streams)
        for name in operator.inputs:
            if name in home and home[name] != here:
                loads[here] += graph.transfer_cost * streams[name]
                loads[home[name]] += graph.transfer_cost * streams[name]
    return loads


def told_loads(
    graph: QueryGraph, streams: Mapping[str, float], allocation: Sequence[int]
) -> list[float]:
    """Return the load of each node as the planner counts it."""
    model = linear_load(graph)
    space = space_of(model.problem(CAPACITY))
    pairs = {
        f"pairs of {operator.name}": handled(operator, streams)
        for operator in graph.operators
        if operator.window is not None
    }
    totals = np.array(model.load).sum(axis=0)[space.streams]
    rates = np.array([{**streams, **pairs}[model.variables[k]] for k in space.streams])
    weights = space.weights(np.array(allocation))
    with np.errstate(invalid="ignore"):
        report = weights @ (totals * rates / sum(CAPACITY)) * np.array(CAPACITY)
    return [np.inf if np.isnan(each) else float(each) for each in report]


@st.composite
def graphs(draw: st.DrawFn) -> QueryGraph:
    names = ["I0", "I1"]
    operators = []
    for j in range(draw(st.integers(2, 6))):
        selectivity = draw(st.sampled_from([None, None, 0, 0.5, 1]))
        cost = draw(st.sampled_from([0, 1, 3]))
        streams = st.sampled_from(names)
        if draw(st.booleans()):
            read = draw(st.lists(streams, min_size=2, max_size=2))
            operator = GraphOperator.of(f"o{j}", read, cost, selectivity, kind="join", window=2)
        else:
            read = draw(st.lists(streams, min_size=1, max_size=2, unique=True))
            operator = GraphOperator.of(f"o{j}", read, cost, selectivity)
        operators.append(operator)
        names.append(f"o{j}")
    graph = QueryGraph.of(names[:2], operators, draw(st.sampled_from([0.25, 4, 100_000])))
    assume(any(map(any, linear_load(graph).load)))
    return graph


@settings(max_examples=200)
@given(
    graphs(),
    st.lists(st.integers(0, len(CAPACITY) - 1), min_size=6, max_size=6),
    st.sampled_from([0.0, 0.25, 2.0]),
    st.sampled_from([0.5, 3.0]),
)
def test_no_placement_costs_more_in_truth_than_is_reported(
    graph: QueryGraph, places: list[int], unknown: float, rate: float
) -> None:
    allocation = places[: len(graph.operators)]
    streams = streams_of(graph, {"I0": rate, "I1": 1.5}, unknown)
    true = true_loads(graph, streams, allocation, len(CAPACITY))
    report = told_loads(graph, streams, allocation)
    for node, load in enumerate(true):
        assert report[node] >= load * (1 - 1e-9) - 1e-12
        if np.isfinite(report[node]):
            assert report[node] == pytest.approx(load, rel=1e-9, abs=1e-12)


@settings(max_examples=25)
@given(graphs())
def test_planned_placements_part_nothing_that_may_cost_anything(graph: QueryGraph) -> None:
    problem = linear_load(graph).problem(CAPACITY)
    space = space_of(problem)
    labels = space.inseparable()
    for method in get_args(Method):
        plan = resilient(problem, method)
        assert isinstance(plan, ResilientPlan)
        assert plan.status == "feasible"
        assert plan.borne.ratio > 0
        places = np.array(plan.allocation)
        assert all(len(set(places[labels == label].tolist())) == 1 for label in labels)


@pytest.mark.parametrize("method", get_args(Method))
def test_a_stream_that_only_a_join_reads_is_not_forgotten(method: Method) -> None:
    problem = linear_load(joined_after_unknown(100_000)).problem([1, 1])
    plan = resilient(problem, method)
    assert isinstance(plan, ResilientPlan)
    assert plan.allocation[0] == plan.allocation[1]
    assert plan.with_transfer is not None
    assert plan.borne.ratio == pytest.approx(0.25)
    parted = describe(problem, space_of(problem), np.array([0, 1]))
    assert (parted.status, parted.borne.ratio, parted.borne.plane_distance) == ("unbalanced", 0, 0)
    assert parted.feasible.ratio == pytest.approx(0.5, abs=1e-3), "without what crosses"


@pytest.mark.parametrize("allocation", [(0, 0), (0, 1)])
def test_what_is_reported_is_the_limit_of_the_truth_as_the_unknown_rate_may_be_higher(
    allocation: tuple[int, int],
) -> None:
    graph = joined_after_unknown(1)
    problem = linear_load(graph).problem([1, 1])
    report = describe(problem, space_of(problem), np.array(allocation)).borne.ratio
    rng = np.random.default_rng(0)
    ideal = rng.dirichlet(np.ones(3), size=4000)[:, :2] * 2  # loads of f and j, at most 2 in all
    true = []
    for highest in (1.0, 10.0, 100.0):
        unknown = rng.uniform(0, highest, size=len(ideal))
        loads = [
            true_loads(graph, {"I": f, "f": u, "J": j / u, "j": 0.0}, allocation, 2)
            for (f, j), u in zip(ideal, unknown, strict=True)
        ]
        true.append(np.mean([max(each) <= 1 for each in loads]))
    assert true[2] == pytest.approx(report, abs=0.03)
    assert true[0] >= true[1] - 0.03 >= true[2] - 0.06


def test_a_stream_without_load_and_without_transfer_limits_nothing() -> None:
    arcs = [Arc(0, 1, (0.0, 0.0))]
    space = space_of(ResilientProblem.of([[1, 0], [1, 0]], [1, 1], arcs=arcs))
    assert len(space.barred) == 0


def test_operators_that_cannot_be_parted_are_packed_as_one() -> None:
    arcs = [Arc(1, 2, (0.0, 1.0))]
    heavy = space_of(ResilientProblem.of([[1, 0]] * 3, [2, 2], [1.2, 0], arcs))
    outcome = packing_at_bound(heavy)
    assert outcome == Infeasible(
        "operators 1, 2, which cannot be separated, need 1.2 times the largest node at the lower "
        "bound"
    )
    light = space_of(ResilientProblem.of([[1, 0]] * 3, [2, 2], [0.9, 0], arcs))
    packed = packing_at_bound(light)
    assert not isinstance(packed, Infeasible)
    assert packed is not None
    assert packed[1] == packed[2] != packed[0]
