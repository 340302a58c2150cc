from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.cli.main import main
from elastream.foresight.commands.transition import transition_problem
from elastream.foresight.mtm.planner import transition
from elastream.model.errors import ProblemError

CHAIN: dict[str, Any] = {
    "sizes": [2, 3, 4],
    "matrix": [[0.3, 0.6, 0.1], [0.3, 0.4, 0.3], [0.1, 0.5, 0.4]],
    "gamma": 0.8,
}
PROBLEM: dict[str, Any] = {
    "work": [3, 1, 2, 4, 2],
    "state": [10, 5, 0, 7, 3],
    "current": [[0, 3], [3, 5]],
    "nodes": 3,
    "tau": 0.6,
    "chain": CHAIN,
}


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(problem: object, *options: str) -> tuple[int, str, str]:
        file = tmp_path / "problem.json"
        file.write_text(json.dumps(problem))
        code = main(["plan", "transition", str(file), *options])
        return code, *capsys.readouterr()

    return run


def test_a_plan_has_the_fields_of_the_contract(plan: Any) -> None:
    code, out, err = plan(PROBLEM)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == [
        "status", "cost", "assignment", "moves", "limit", "max_load", "projected", "partitions",
    ]  # fmt: skip
    assert found["status"] == "optimal"
    assert found["cost"] == sum(move["state"] for move in found["moves"])
    assert found["projected"] >= 0
    assert found["partitions"] > 0


def test_a_gamma_of_zero_costs_what_single_step_costs(
    plan: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = plan(PROBLEM | {"chain": CHAIN | {"gamma": 0}})
    single = tmp_path / "single.json"
    single.write_text(json.dumps({name: PROBLEM[name] for name in PROBLEM if name != "chain"}))
    assert main(["plan", "single-step", str(single)]) == 0
    assert json.loads(out)["cost"] == json.loads(capsys.readouterr().out)["cost"]


def test_a_migration_that_may_follow_and_cannot_be_made_exits_with_3(plan: Any) -> None:
    code, out, err = plan(PROBLEM | {"work": [9, 1, 1, 1, 1], "nodes": 2})
    assert (code, err) == (3, "")
    found = json.loads(out)
    assert list(found) == ["status", "reason"]
    assert "nodes may follow, and task 0 has work 9" in found["reason"]


def test_what_can_never_follow_need_not_fit(plan: Any) -> None:
    apart = {"sizes": [1, 2, 4], "matrix": [[0, 1, 0], [1, 0, 0], [0, 0, 1]], "gamma": 0.5}
    code, out, _ = plan(PROBLEM | {"work": [6, 1, 1, 1, 1], "nodes": 2, "chain": apart})
    assert code == 0
    assert json.loads(out)["status"] == "optimal"


def with_chain(**changes: object) -> dict[str, Any]:
    return PROBLEM | {"chain": CHAIN | changes}


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        ({k: v for k, v in PROBLEM.items() if k != "chain"}, "chain: is missing"),
        (PROBLEM | {"chain": 7}, "chain: 7 is not an object"),
        (PROBLEM | {"nodes": 5}, "nodes: 5 is not among chain.sizes"),
        (PROBLEM | {"current": [0, 0, 0, 1, 1]}, "current[0]: 0 is not an interval"),
        (with_chain(gamma=1), "chain.gamma: 1 is too large; the most is 0.999"),
        (with_chain(gamma=-0.1), "chain.gamma: -0.1 is negative"),
        (with_chain(sizes=[2, 3]), "chain.matrix: has 3 rows where 2 are needed"),
        (with_chain(sizes=[]), "chain.sizes: has 0 entries"),
        (with_chain(sizes=[2, 3, 3]), "chain.sizes[2]: 3 is given twice"),
        (with_chain(sizes=[2, 3, 0]), "chain.sizes[2]: 0 is too small"),
        (with_chain(matrix=[[1, 0], [1, 0, 0], [1, 0, 0]]), "chain.matrix[0]: has 2 entries"),
        (
            with_chain(matrix=[[1, 0, 0], [0.5, 0.4, 0], [1, 0, 0]]),
            "chain.matrix[1]: sums to 0.9, not to 1",
        ),
        (with_chain(extra=1), "chain.extra: is not a field"),
        (with_chain(directions=["up"]), "chain.directions: has 1 entries; 3 are needed"),
        (with_chain(directions=["up", "down", "left"]), "'left' is not a direction"),
        (PROBLEM | {"direction": "sideways"}, "direction: 'sideways' is not a direction"),
    ],
)
def test_a_wrong_problem_is_one_line_that_names_the_field(
    problem: object, line: str, plan: Any
) -> None:
    code, out, err = plan(problem)
    assert (code, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1


def test_values_that_do_not_exist_are_one_line(plan: Any, tmp_path: Path) -> None:
    code, out, err = plan(PROBLEM, "--values", str(tmp_path / "none.parquet"))
    assert (code, out) == (2, "")
    assert "cannot be read as values: it does not exist" in err


def test_a_plan_from_stored_values_is_the_same_plan(
    plan: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, values = tmp_path / "tasks.json", tmp_path / "values.parquet"
    tasks.write_text(json.dumps({k: PROBLEM[k] for k in ("work", "state", "tau", "chain")}))
    assert main(["values", "build", str(tasks), "--out", str(values)]) == 0
    assert "all" in capsys.readouterr().out
    assert plan(PROBLEM, "--values", str(values)) == plan(PROBLEM)
    code, out, err = plan(PROBLEM | {"tau": 0.7}, "--values", str(values))
    assert (code, out) == (2, "")
    assert "holds the values of another problem" in err


def test_a_file_that_holds_no_values_is_one_line(plan: Any, tmp_path: Path) -> None:
    broken = tmp_path / "values.parquet"
    broken.write_bytes(b"PAR1 and nothing more")
    code, _, err = plan(PROBLEM, "--values", str(broken))
    assert code == 2
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--out", "v.parquet"], "give either a problem file or --trace"),
        (["--trace", "nowhere", "--out", "v.parquet"], "--chain: is needed with --trace"),
        (
            ["--trace", "nowhere", "--chain", "c.json", "--out", "v.parquet"],
            "nowhere: is not a trace, or was not finished",
        ),
    ],
)
def test_values_of_nothing_are_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["values", "build", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert line in captured.err
    assert captured.err.count("\n") == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**12) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(
    where=st.sampled_from([*PROBLEM, *(f"chain.{name}" for name in CHAIN), "chain.directions"]),
    value=json_values,
)
@settings(max_examples=300)
def test_any_value_of_any_field_is_planned_or_refused_by_name(where: str, value: object) -> None:
    name = where.removeprefix("chain.")
    problem = with_chain(**{name: value}) if name != where else PROBLEM | {name: value}
    try:
        checked = transition_problem(problem)
    except ProblemError:
        return
    assert transition(checked).status in ("optimal", "feasible", "infeasible")
