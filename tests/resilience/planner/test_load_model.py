from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import ProblemError
from elastream.resilience.model.graph import GraphOperator, QueryGraph
from elastream.resilience.planner.load_model import LoadModel, linear_load


def graph(inputs: list[str], *operators: GraphOperator, transfer_cost: float = 0) -> QueryGraph:
    return QueryGraph.of(inputs, operators, transfer_cost)


def op(
    name: str, inputs: list[str], cost: float = 1, selectivity: float | None = 1
) -> GraphOperator:
    return GraphOperator.of(name, inputs, cost, selectivity)


def join(
    name: str, inputs: list[str], *, window: float, cost: float, selectivity: float | None
) -> GraphOperator:
    return GraphOperator.of(name, inputs, cost, selectivity, kind="join", window=window)


def test_example_2_of_the_paper_has_the_load_of_its_table_2() -> None:
    model = linear_load(
        graph(
            ["I1", "I2"],
            op("o1", ["I1"], 14, 1),
            op("o2", ["o1"], 6),
            op("o3", ["I2"], 9, 0.5),
            op("o4", ["o3"], 14),
        )
    )
    assert model.variables == ("I1", "I2")
    assert list(map(list, model.load)) == [[14, 0], [6, 0], [0, 9], [0, 7]]
    assert [arc[:2] for arc in model.arcs] == [(0, 1), (2, 3)]


def test_example_3_of_the_paper_needs_two_new_variables() -> None:
    model = linear_load(
        graph(
            ["I1", "I2"],
            op("o1", ["I1"], 2, None),
            op("o2", ["o1"], 3, 0.5),
            op("o3", ["I2"], 4, 0.25),
            op("o4", ["o3"], 5, 1),
            join("o5", ["o2", "o4"], window=10, cost=0.6, selectivity=0.2),
            op("o6", ["o5"], 7),
        )
    )
    assert model.variables == ("I1", "I2", "o1", "o5")
    assert np.array(model.load) == pytest.approx(
        np.array(
            [
                [2, 0, 0, 0],
                [0, 0, 3, 0],
                [0, 4, 0, 0],
                [0, 1.25, 0, 0],
                [0, 0, 0, 3],
                [0, 0, 0, 7],
            ]
        )
    )


def test_the_order_of_the_operators_in_the_file_does_not_matter() -> None:
    model = linear_load(graph(["I"], op("late", ["early"], 5), op("early", ["I"], 2, 0.5)))
    assert model.load == ((2.5,), (2,))


def test_a_union_reads_all_its_inputs() -> None:
    model = linear_load(graph(["I", "J"], op("u", ["I", "J"], 2, 0.5), op("v", ["u", "I"], 3)))
    assert model.load == ((2, 2), (4.5, 1.5))


def test_an_unknown_selectivity_that_no_one_reads_needs_no_variable() -> None:
    assert linear_load(graph(["I"], op("o", ["I"], 2, None))).variables == ("I",)


def test_an_unknown_selectivity_that_only_a_join_reads_needs_no_variable() -> None:
    model = linear_load(
        graph(
            ["I", "J"],
            op("o", ["I"], 2, None),
            join("j", ["o", "J"], window=1, cost=1, selectivity=0.5),
        )
    )
    assert model.variables == ("I", "J", "j")


def test_a_transfer_cost_makes_the_rate_of_every_arc_a_variable_that_counts() -> None:
    model = linear_load(
        graph(
            ["I", "J"],
            op("o", ["I"], 2, None),
            join("j", ["o", "J"], window=1, cost=1, selectivity=0.5),
            transfer_cost=3,
        )
    )
    assert model.variables == ("I", "J", "j", "o")
    assert model.arcs == ((0, 1, (0, 0, 0, 3)),)


def test_joins_of_streams_that_go_together_share_a_variable() -> None:
    model = linear_load(
        graph(
            ["I", "J"],
            op("half", ["I"], 1, 0.5),
            join("a", ["I", "J"], window=2, cost=3, selectivity=0.5),
            join("b", ["J", "half"], window=4, cost=5, selectivity=0.1),
            op("after", ["b"], 7),
        )
    )
    # a: 2 IJ pairs, r_a = IJ; b: 4 * 0.5 IJ = 2 IJ pairs too
    assert model.variables == ("I", "J", "a")
    assert [row[2] for row in model.load] == [0, 6, 10, pytest.approx(1.4)]


@pytest.mark.parametrize("selectivity", [0, None])
def test_a_join_that_shows_no_output_is_counted_in_pairs(selectivity: float | None) -> None:
    joined = join("j", ["I", "J"], window=2, cost=3, selectivity=selectivity)
    model = linear_load(graph(["I", "J"], joined, op("after", ["j"], 5)))
    assert model.variables[:3] == ("I", "J", "pairs of j")
    assert model.variables[3:] == (() if selectivity == 0 else ("j",))
    assert model.load[0][2] == 3
    assert sum(model.load[1]) == (0 if selectivity == 0 else 5)


def test_a_variable_never_has_the_name_of_a_stream() -> None:
    joined = join("j", ["I", "pairs of j"], window=2, cost=3, selectivity=0)
    assert linear_load(graph(["I", "pairs of j"], joined)).variables[2] == "pairs of j*"


def test_a_stream_that_is_always_empty_loads_nothing() -> None:
    joined = join("j", ["none", "J"], window=2, cost=3, selectivity=1)
    model = linear_load(graph(["I", "J"], op("none", ["I"], 1, 0), joined))
    assert model.load == ((1, 0), (0, 0))


def test_the_lower_bound_may_name_the_inputs_alone() -> None:
    model = linear_load(graph(["I"], op("o", ["I"], 1, None), op("p", ["o"], 1)))
    assert model.problem([1], [0.25]).lower_bound == (0.25, 0)
    assert model.problem([1], [0.25, 0.5]).lower_bound == (0.25, 0.5)
    with pytest.raises(ProblemError, match="lower_bound: has 3 entries; there are 1 inputs"):
        model.problem([1], [0, 0, 0])


def evaluated(graph: QueryGraph, rates: dict[str, float], s: float) -> list[float]:
    """The loads at given input rates, tuple by tuple; ``s`` is in for unknown selectivities."""
    streams, loads = dict(rates), dict[str, float]()
    for j in graph.order:
        o = graph.operators[j]
        read = [streams[name] for name in o.inputs]
        passed = sum(read) if o.window is None else o.window * read[0] * read[1]
        loads[o.name] = o.cost * passed
        streams[o.name] = (s if o.selectivity is None else o.selectivity) * passed
    pairs = {
        f"pairs of {o.name}": o.window * streams[o.inputs[0]] * streams[o.inputs[1]]
        for o in graph.operators
        if o.window is not None
    }
    model = linear_load(graph)
    values = [(streams | pairs)[name] for name in model.variables]
    found = [sum(c * x for c, x in zip(row, values, strict=True)) for row in model.load]
    assert found == pytest.approx([loads[o.name] for o in graph.operators], rel=1e-9, abs=1e-12)
    return found


@st.composite
def graphs(draw: st.DrawFn) -> QueryGraph:
    names = ["I0", "I1"]
    operators = []
    for j in range(draw(st.integers(1, 6))):
        selectivity = draw(st.sampled_from([None, 0, 0.5, 1, 2]))
        cost = draw(st.sampled_from([0, 1, 3]))
        if draw(st.booleans()):
            read = draw(st.lists(st.sampled_from(names), min_size=2, max_size=2))
            operators.append(join(f"o{j}", read, window=2, cost=cost, selectivity=selectivity))
        else:
            read = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
            operators.append(op(f"o{j}", read, cost, selectivity))
        names.append(f"o{j}")
    return QueryGraph.of(["I0", "I1"], draw(st.permutations(operators)), 0)


@settings(max_examples=200)
@given(graphs(), st.sampled_from([0.5, 1, 3]), st.sampled_from([0, 0.25, 2]))
def test_the_linear_form_gives_the_true_load_at_any_rates(
    graph: QueryGraph, rate: float, s: float
) -> None:
    evaluated(graph, {"I0": rate, "I1": 1.5}, s)


@settings(max_examples=200)
@given(graphs())
def test_every_new_variable_is_needed(graph: QueryGraph) -> None:
    model: LoadModel = linear_load(graph)
    for k in range(model.inputs, len(model.variables)):
        assert any(row[k] for row in model.load)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: graph(["I"], op("o", ["X"])), "operators[0].inputs[0]: no stream is named 'X'"),
        (lambda: graph(["I"], op("o", [])), "inputs: operator 'o' reads no stream"),
        (lambda: graph(["I"]), "operators: is empty"),
        (lambda: graph([], op("o", ["I"])), "inputs: is empty"),
        (lambda: graph(["I"], op("I", ["I"])), "operators[0].name: 'I' is the name of another"),
        (lambda: graph(["I", "I"], op("o", ["I"])), "inputs[1]: 'I' is the name of another"),
        (lambda: graph(["I"], op("o", ["o"])), "operators[0].inputs: the streams form a cycle"),
        (
            lambda: graph(["I"], op("x", ["I", "b"]), op("a", ["x"]), op("b", ["a"])),
            "the streams form a cycle: 'x -> a -> b -> x'",
        ),
        (lambda: GraphOperator.of("o", ["I"], 1, kind="sort"), "kind: 'sort' is not known"),
        (lambda: GraphOperator.of("o", ["I"], 1, window=3), "window: is given, but"),
        (lambda: GraphOperator.of("o", ["I"], 1, kind="join", window=3), "inputs: a join reads"),
        (lambda: GraphOperator.of("o", ["I", "J"], 1, kind="join"), "window: is missing"),
        (lambda: GraphOperator.of("o", ["I", "J"], 1, kind="join", window=0), "window: 0 is not"),
        (lambda: GraphOperator.of("o", ["I"], -1), "cost: -1 is negative"),
        (lambda: GraphOperator.of("", ["I"], 1), "name: '' is not a name"),
        (lambda: GraphOperator.of("o", "I", 1), "inputs: 'I' is not a list of names"),
        (lambda: linear_load(graph(["I"], op("o", ["I"], 0))).problem([1]), "graph: no operator"),
    ],
)  # fmt: skip
def test_a_wrong_graph_is_refused_by_name(make: Any, line: str) -> None:
    with pytest.raises(ProblemError) as refused:
        make()
    assert line in str(refused.value)
