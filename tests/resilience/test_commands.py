from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastream.cli.main import main

EXAMPLE: dict[str, Any] = {
    "load": [[14, 0], [6, 0], [0, 9], [0, 7]],
    "capacity": [1, 1],
    "lower_bound": [0, 0],
}
O1 = {"name": "o1", "inputs": ["I1"], "cost": 14, "selectivity": 1}
JOIN = {
    "name": "j",
    "inputs": ["o1", "I2"],
    "kind": "join",
    "window": 10,
    "cost": 0.01,
    "selectivity": 0.1,
}
GRAPH: dict[str, Any] = {
    "graph": {"inputs": ["I1", "I2"], "operators": [O1, JOIN], "transfer_cost": 0.5},
    "capacity": [1, 1],
}


def with_operators(*operators: object) -> dict[str, Any]:
    return GRAPH | {"graph": GRAPH["graph"] | {"operators": list(operators)}}


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(problem: object, *options: str) -> tuple[int, str, str]:
        file = tmp_path / "problem.json"
        file.write_text(json.dumps(problem))
        code = main(["plan", "resilient", str(file), *options])
        return code, *capsys.readouterr()

    return run


def test_the_fields_of_the_contract_are_printed(plan: Any) -> None:
    code, out, err = plan(EXAMPLE)
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "status": "feasible",
        "allocation": [0, 1, 1, 0],
        "feasible_ratio": pytest.approx(0.756, abs=5e-4),
        "plane_distance": pytest.approx(0.60571, abs=1e-5),
        "weights": [[pytest.approx(1.4), pytest.approx(0.875)], [0.6, pytest.approx(1.125)]],
    }


def test_the_plan_files_page_shows_what_is_printed(plan: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "plan-files.md").read_text()
    section = page[page.index("## resilient") :]
    blocks = re.findall(r"^```json\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    problem, printed, graph = (json.loads(block) for block in blocks[:3])
    found = json.loads(plan(problem)[1])
    for name in ("feasible_ratio", "plane_distance"):
        assert found.pop(name) == pytest.approx(printed.pop(name), abs=5e-4)
    assert found == printed
    assert plan(graph)[0] == 0


def test_the_lower_bound_may_be_left_out(plan: Any) -> None:
    without = {name: EXAMPLE[name] for name in ("load", "capacity")}
    assert plan(without) == plan(EXAMPLE)


def test_a_graph_adds_its_variables_and_the_load(plan: Any) -> None:
    code, out, err = plan(GRAPH)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["variables"] == ["I1", "I2", "j"]
    assert found["load"] == [[14, 0, 0], [0, 0, pytest.approx(0.1)]]
    assert sorted(found["allocation"]) == [0, 1]
    assert found["feasible_ratio"] == pytest.approx(0.5, abs=5e-4)
    assert found["with_transfer"]["feasible_ratio"] < 0.5


def test_an_unknown_selectivity_is_null(plan: Any) -> None:
    _, out, _ = plan(
        with_operators(O1 | {"selectivity": None}, O1 | {"name": "o2", "inputs": ["o1"]})
    )
    assert json.loads(out)["variables"] == ["I1", "I2", "o1"]


TASKS = [{"query": "zeta", "operator": 0, "partition": p} for p in range(2)]
NAMES = {"tasks": TASKS, "executors": ["7", "3"]}


def test_a_plan_repeats_the_names_of_what_it_places(plan: Any) -> None:
    code, out, err = plan(GRAPH | NAMES)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert {name: found.pop(name) for name in NAMES} == NAMES
    assert found == json.loads(plan(GRAPH)[1])
    four = [*TASKS, *({"query": "alpha", "operator": 1, "partition": p} for p in range(2))]
    assert json.loads(plan(EXAMPLE | {"tasks": four})[1])["tasks"] == four


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ({"tasks": TASKS[:1]}, "tasks: has 1 entries; there are 2 operators"),
        ({"tasks": [TASKS[0]] * 2}, "tasks[1]: 'zeta/0/0' is given twice"),
        ({"tasks": ["zeta/0/0"] * 2}, "tasks[0]: 'zeta/0/0' is not an object"),
        ({"tasks": [TASKS[0] | {"partition": -1}]}, "tasks[0].partition: -1 is too small"),
        ({"tasks": [TASKS[0] | {"query": 1}]}, "tasks[0].query: 1 is not a name"),
        ({"tasks": 7}, "tasks: 7 is not a list"),
        ({"executors": ["1"]}, "executors: has 1 entries; there are 2 nodes"),
        ({"executors": ["1", "1"]}, "executors[1]: '1' is given twice"),
        ({"executors": [1, 2]}, "executors[0]: 1 is not a name"),
    ],
)
def test_names_that_fit_nothing_are_refused(names: dict[str, Any], line: str, plan: Any) -> None:
    code, out, err = plan(GRAPH | names)
    assert (code, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("method", ["refined", "rod"])
def test_every_method_can_be_chosen(method: str, plan: Any) -> None:
    for problem in (EXAMPLE, GRAPH):
        code, out, err = plan(problem, "--method", method)
        assert (code, err) == (0, "")
        assert len(json.loads(out)["allocation"]) in (2, 4)


def test_an_unknown_method_is_refused(plan: Any) -> None:
    code, out, err = plan(EXAMPLE, "--method", "best")
    assert (code, out) == (2, "")
    assert "--method" in err
    assert err.count("\n") == 1


def test_the_picture_goes_to_standard_error(plan: Any) -> None:
    code, out, err = plan(EXAMPLE, "--draw")
    assert code == 0
    assert json.loads(out)["status"] == "feasible"
    assert "bears 0.7559 ±" in " ".join(err.split())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"capacity": [0, 0]}, "no node has any capacity"),
        ({"lower_bound": [0.1, 0.1]}, "the lower bound is not inside the ideal set"),
        ({"lower_bound": [0.099, 0]}, "operator 0 alone needs"),
    ],
)
def test_a_problem_without_a_plan_exits_with_3_and_a_reason(
    change: dict[str, Any], reason: str, plan: Any
) -> None:
    code, out, err = plan(EXAMPLE | change)
    assert (code, err) == (3, "")
    found = json.loads(out)
    assert found["status"] == "infeasible"
    assert found["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        ({}, "load: is missing"),
        ({"load": [[1]]}, "capacity: is missing"),
        (EXAMPLE | GRAPH, "graph: replaces load"),
        (EXAMPLE | {"lowerbound": [0]}, "lowerbound: is not a field"),
        (EXAMPLE | {"lower_bound": None}, "lower_bound: None is not a list"),
        (EXAMPLE | {"lower_bound": [0]}, "lower_bound: has 1 entries where 2 are needed"),
        (EXAMPLE | {"load": [[0, 0]] * 4}, "load: is 0 everywhere"),
        (EXAMPLE | {"load": [[1, 2], [1]]}, "load[1]: has 1 entries where 2 are needed"),
        (EXAMPLE | {"load": [[1, "2"]]}, "load[0][1]: '2' is not a number"),
        (EXAMPLE | {"capacity": [1, -1]}, "capacity[1]: -1 is negative"),
        (GRAPH | {"graph": []}, "graph: [] is not an object"),
        (GRAPH | {"graph": {"inputs": ["I"]}}, "graph.operators: is missing"),
        (with_operators(), "graph.operators: is empty"),
        (with_operators(3), "graph.operators[0]: 3 is not an object"),
        (with_operators(O1 | {"price": 1}), "graph.operators[0].price: is not a field"),
        (with_operators(O1 | {"inputs": []}), "graph.operators[0].inputs: operator 'o1' reads no"),
        (with_operators(O1 | {"inputs": ["I9"]}), "graph.operators[0].inputs[0]: no stream is"),
        (with_operators(O1 | {"inputs": ["o1"]}), "graph.operators[0].inputs: the streams form"),
        (with_operators(O1, O1), "graph.operators[1].name: 'o1' is the name of another stream"),
        (with_operators(JOIN | {"window": 0, "inputs": ["I1", "I2"]}), "window: 0 is not positive"),
        (with_operators(O1 | {"cost": 0}), "graph: no operator has any load"),
        (GRAPH | {"lower_bound": [0]}, "lower_bound: has 1 entries; there are 2 inputs"),
    ],
)
def test_a_wrong_file_exits_with_2_and_one_line_that_names_the_field(
    problem: object, line: str, plan: Any
) -> None:
    code, out, err = plan(problem)
    assert (code, out) == (2, "")
    assert err.startswith("elastream: ")
    assert err.count("\n") == 1
    assert line in err


amounts = st.one_of(
    st.integers(0, 10), st.floats(0, 1e100), st.sampled_from([5e-324, 1e-300, 1e-20, 1e100])
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    load=st.lists(st.lists(amounts, min_size=2, max_size=2), min_size=1, max_size=4),
    capacity=st.lists(amounts, min_size=1, max_size=3),
    least=st.lists(amounts, min_size=2, max_size=2),
    method=st.sampled_from(["refined", "rod"]),
)
def test_amounts_of_any_size_end_in_a_plan_or_in_one_line(
    load: list[list[float]], capacity: list[float], least: list[float], method: str, plan: Any
) -> None:
    for bound in ([0, 0], least):
        problem = {"load": load, "capacity": capacity, "lower_bound": bound}
        code, out, err = plan(problem, "--method", method)
        assert code in (0, 2, 3), err
        if code == 0:
            found = json.loads(out)
            assert 0 <= found["feasible_ratio"] <= 1
            assert all(capacity[node] > 0 for node in found["allocation"])
        elif code == 2:
            assert err.count("\n") == 1
