from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastream.cli.main import main

STEP: dict[str, Any] = {
    "work": [3, 1, 2, 4],
    "state": [10, 5, 0, 7],
    "current": [[0, 3], [3, 4]],
    "nodes": 3,
    "tau": 0.4,
}
SEQUENCE = {name: STEP[name] for name in ("work", "state", "current")} | {
    "targets": [{"nodes": 3, "tau": 0.4}, {"nodes": 2, "tau": 0.6}]
}
PROBLEMS = {"single-step": STEP, "free-step": STEP, "sequence": SEQUENCE}


@pytest.fixture
def plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Any:  # (kind, text) -> exit code, standard output, standard error
    def run(kind: str, problem: object) -> tuple[int, str, str]:
        file = tmp_path / "problem.json"
        text = problem if isinstance(problem, str | bytes) else json.dumps(problem)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        code = main(["plan", kind, str(file)])
        return code, *capsys.readouterr()

    return run


def test_single_step_prints_the_fields_of_the_contract(plan: Any) -> None:
    code, out, err = plan("single-step", STEP)
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "status": "optimal",
        "cost": 0,
        "assignment": [[0, 2], [3, 4], [2, 3]],
        "moves": [{"task": 2, "from": 0, "to": 2, "state": 0}],
        "limit": pytest.approx(14 / 3),
        "max_load": 4,
    }


def test_free_step_prints_the_fields_of_the_contract(plan: Any) -> None:
    code, out, err = plan("free-step", STEP | {"current": [0, 0, 0, 1]})
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == [
        "status", "cost", "lower_bound", "nodes_of_tasks", "moves", "limit", "max_load", "batch",
        "batch_limit",
    ]  # fmt: skip
    assert (found["status"], found["cost"], found["lower_bound"]) == ("optimal", 0, 0)
    assert (found["batch"], found["batch_limit"]) == (found["max_load"], found["limit"])


STAGED = STEP | {
    "current": [0, 0, 0, 1], "stages": [0, 0, 1, 1], "slots": [1, 1, 2], "memory": [20, 20, 20],
}  # fmt: skip


def test_free_step_takes_stages_slots_and_memory(plan: Any) -> None:
    code, out, _ = plan("free-step", STAGED)
    found = json.loads(out)
    assert (code, found["status"], found["nodes_of_tasks"]) == (0, "optimal", [2, 0, 0, 2])
    assert (found["batch"], found["batch_limit"]) == (3.5, pytest.approx(3.5))


def test_each_stage_may_be_limited_by_itself(plan: Any) -> None:
    code, out, _ = plan("free-step", STAGED | {"within": "stage"})
    assert code == 3
    assert (
        "stage 0 takes at least 1.5 (task 0 with work 3), and may take 1.4"
        in json.loads(out)["reason"]
    )


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"slots": 5}, "slots: 5 is not a list of numbers"),
        ({"slots": [1, 1]}, "slots: has 2 entries where 3 are needed"),
        ({"slots": [1, 1, 0]}, "slots[2]: 0 is not positive"),
        ({"stages": [0, 0, 2, 2]}, "stages: has no task of stage 1"),
        ({"stages": []}, "stages: [] is not a list of numbers"),
        ({"memory": [1, 1, None]}, "memory[2]: None is not a number"),
        ({"within": []}, "within: [] is not one of batch, stage"),
    ],
)
def test_a_wrong_field_of_a_free_step_is_named_in_one_line(
    plan: Any, wrong: dict[str, Any], line: str
) -> None:
    code, out, err = plan("free-step", STAGED | wrong)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err


def test_sequence_prints_the_fields_of_the_contract(plan: Any) -> None:
    code, out, err = plan("sequence", SEQUENCE)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == ["status", "cost", "steps"]
    assert found["cost"] == sum(step["cost"] for step in found["steps"])
    assert [list(step) for step in found["steps"]] == [["cost", "assignment", "moves"]] * 2


def test_a_sequence_with_gamma_prints_the_weighted_cost_next_to_the_total(plan: Any) -> None:
    code, out, err = plan("sequence", SEQUENCE | {"gamma": 0.5})
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == ["status", "cost", "weighted_cost", "steps"]
    first, second = (step["cost"] for step in found["steps"])
    assert (found["cost"], found["weighted_cost"]) == (first + second, first + second / 2)


def test_a_wrong_gamma_is_named(plan: Any) -> None:
    code, out, err = plan("sequence", SEQUENCE | {"gamma": 2})
    assert (code, out, err) == (2, "", "elastream: gamma: 2 is too large; the most is 1\n")


def test_a_dash_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(STEP).encode())))
    assert main(["plan", "single-step", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "optimal"


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_problem_without_a_plan_exits_with_3_and_a_reason(kind: str, plan: Any) -> None:
    tight = PROBLEMS[kind] | {"work": [0, 0, 0, 4]}
    code, out, err = plan(kind, tight)
    assert (code, err) == (3, "")
    found = json.loads(out)
    assert list(found) == ["status", "reason"]
    assert found["status"] == "infeasible"
    assert "task 3" in found["reason"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is empty; give one JSON object"),
        ("  \n", "is empty; give one JSON object"),
        ("{", "is not JSON: Expecting property name"),
        ("[1, 2]", "holds [1, 2], not a JSON object"),
        (b"\xff\xfe", "is not UTF-8 text, at byte 0"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"work": ' + "9" * 5000 + "}", "is not JSON that can be read"),
        ('{"tau": 1, "tau": 2}', "tau: is given twice"),
        ("{}", "work: is missing"),
        (json.dumps(STEP | {"taau": 1}), "taau: is not a field; the fields are work, state,"),
        (json.dumps(STEP | {"\ud800": 1}), "\\ud800: is not a field"),
        (json.dumps(STEP | {"work": [1, float("nan"), 1, 1]}), "work[1]: nan is not finite"),
        (json.dumps(STEP | {"work": [1, float("inf"), 1, 1]}), "work[1]: inf is not finite"),
        (json.dumps(STEP | {"work": [1, -1, 1, 1]}), "work[1]: -1 is negative"),
        (json.dumps(STEP | {"state": [1]}), "state: has 1 entries where 4 are needed"),
        (json.dumps(STEP | {"current": [0, 0, 0, 1]}), "current[0]: 0 is not an interval"),
        (json.dumps(STEP | {"current": [[0, 2]]}), "current: no node holds tasks [2, 4)"),
        (json.dumps(STEP | {"nodes": "3"}), "nodes: '3' is not a whole number"),
        (json.dumps(STEP | {"tau": None}), "tau: None is not a number"),
    ],
)
def test_a_wrong_file_exits_with_2_and_one_line_that_names_the_field(
    text: str | bytes, line: str, plan: Any
) -> None:
    code, out, err = plan("single-step", text)
    assert (code, out) == (2, "")
    assert err.startswith("elastream: ")
    assert err.count("\n") == 1
    assert line in err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "single-step", "no-such-file.json"]) == 2
    assert capsys.readouterr().err == (
        "elastream: no-such-file.json: cannot be read: No such file or directory\n"
    )


def test_a_hundred_megabytes_of_garbage_are_one_line(plan: Any) -> None:
    code, out, err = plan("free-step", b"{" + b"\x00garbage!" * 11_000_000)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["work", "state", "nodes"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    kind=st.sampled_from(sorted(PROBLEMS)),
    field=st.sampled_from([*STEP, "targets", "gamma", "extra"]),
    value=json_values,
)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_of_any_field_ends_in_a_fault_of_our_own(
    kind: str, field: str, value: object, plan: Any
) -> None:
    code, out, err = plan(kind, PROBLEMS[kind] | {field: value})
    assert code in (0, 2, 3), err
    assert (code == 2) == bool(err)
    assert (code == 2) == (out == "")
    assert err.count("\n") <= 1


@given(kind=st.sampled_from(sorted(PROBLEMS)), text=st.binary(max_size=200), cut=st.integers(0, 99))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_end_in_a_fault_of_our_own(kind: str, text: bytes, cut: int, plan: Any) -> None:
    whole = json.dumps(PROBLEMS[kind]).encode()
    code, _, err = plan(kind, whole[:cut] + text + whole[cut:])
    assert code in (0, 2, 3), err
    assert err.count("\n") <= 1


def test_an_unknown_kind_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "fastest", "x.json"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("elastream: No such command 'fastest'")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["plan"], ["bench"]])
def test_without_arguments_help_is_shown_as_it_is(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--help"]) == 0
    help_text = capsys.readouterr().out
    assert main(arguments) == 2
    assert capsys.readouterr().err == help_text


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["plan", "--help"], ["plan", "sequence", "--help"]]
)
def test_help_loads_neither_java_nor_a_compiler_nor_a_solver(arguments: list[str]) -> None:
    script = (
        "import sys; from elastream.cli.main import main; code = main(sys.argv[1:]);"
        "heavy = {'pyspark', 'py4j', 'numpy', 'numba', 'highspy', 'matplotlib', 'pandas'};"
        "print(sorted(heavy & set(sys.modules)), code)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "[] 0"
    assert "elastream" in run.stdout


def test_a_small_plan_compiles_nothing(tmp_path: Path) -> None:
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(STEP))
    script = (
        "import sys; from elastream.cli.main import main; code = main(sys.argv[1:]);"
        "print('numba' in sys.modules, code)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, "plan", "single-step", str(file)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.splitlines()[-1] == "False 0"
