from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastream.cli.main import main

TIME: dict[str, Any] = {
    "window": {"kind": "time", "length": 4, "slide": 2},
    "last_window": 1,
    "first_tuples": [4],
}
ROWS: dict[str, Any] = {
    "window": {"kind": "rows", "length": 3, "slide": 2},
    "last_window": 1,
    "first_tuples": [5],
    "arrivals": [[1, 2, 4, 7]],
}


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(problem: object) -> tuple[int, str, str]:
        file = tmp_path / "problem.json"
        file.write_text(json.dumps(problem))
        code = main(["plan", "handover", str(file)])
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("problem", "fields"),
    [
        (TIME, {"migration_timestamp": 3, "activation_timestamp": 5}),
        (TIME | {"first_tuples": [4, 8]}, {"migration_timestamp": 7, "activation_timestamp": 9}),
        (
            TIME | {"query": "sums"},
            {"query": "sums", "migration_timestamp": 3, "activation_timestamp": 5},
        ),
        (ROWS, {"migration_timestamp": 4, "discard": 1}),
        (
            ROWS | {"first_tuples": [5, 5], "arrivals": [[1, 2, 4, 7], [1, 6]]},
            {"migration_timestamp": 4, "discard": 1, "discards": [1, 3]},
        ),
    ],
)
def test_the_fields_of_the_contract_are_printed(
    problem: object, fields: dict[str, object], plan: Any
) -> None:
    code, out, err = plan(problem)
    assert (code, err) == (0, "")
    assert json.loads(out) == {"status": "optimal"} | fields


def test_a_row_count_that_is_not_known_yet_exits_with_3(plan: Any) -> None:
    code, out, err = plan(ROWS | {"first_tuples": [8]})
    assert (code, err) == (3, "")
    assert json.loads(out)["status"] == "infeasible"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"window": 4}, "window: 4 is not an object"),
        ({"window": {"kind": "time", "length": 4}}, "window.slide: is missing"),
        (
            {"window": {"kind": "time", "length": 0, "slide": 2}},
            "window.length: 0 is not positive; give more than zero",
        ),
        ({"first_tuples": []}, "first_tuples: is empty"),
        ({"first_tuples": [-1]}, "first_tuples[0]: -1 is negative"),
        ({"arrivals": [[1]]}, "arrivals: only windows of rows are counted by arrivals"),
        ({"clock": 3}, "clock: is not a field"),
    ],
)
def test_a_wrong_problem_is_one_line(change: dict[str, object], line: str, plan: Any) -> None:
    code, out, err = plan(TIME | change)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert line in err


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["kind", "length", "slide", "x"]), inner)
    ),
    max_leaves=6,
)


@given(
    base=st.sampled_from([TIME, ROWS]), field=st.sampled_from([*ROWS, "extra"]), value=json_values
)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_of_any_field_ends_in_a_fault_of_our_own(
    base: dict[str, Any], field: str, value: object, plan: Any
) -> None:
    code, out, err = plan(base | {field: value})
    assert code in (0, 2, 3), err
    assert (code == 2) == bool(err)
    assert (code == 2) == (out == "")
