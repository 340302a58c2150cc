"""Any values in any fields of a nested problem end in a plan, a reason or one line."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.replication.test_commands import PROBLEM
from tests.resilience.test_commands import GRAPH

from elastream.cli.main import main

Place = tuple[str | int, ...]
PROBLEMS = {"replication": PROBLEM, "resilient": GRAPH | {"lower_bound": [0, 0]}}


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in a problem at which a value stands, lists and objects included."""
    if at:
        yield at
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*at, name))


def value_at(problem: Any, at: Place) -> Any:
    for name in at:
        problem = problem[name]
    return problem


def with_value(problem: Any, at: Place, value: object) -> Any:
    """Return the problem with a value at that place; unchanged where the place has gone."""
    changed = copy.deepcopy(problem)
    place = changed
    try:
        for name in at[:-1]:
            place = place[name]
        place[at[-1]] = value
    except (LookupError, TypeError):
        return problem
    return changed


PLACES = [(kind, at) for kind, problem in PROBLEMS.items() for at in places(problem)]
EXTREMES = [0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**99, 5e-324, 1e-300, 1e-99, 1e99, 1e101]
values = st.one_of(
    st.sampled_from(EXTREMES),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    st.lists(st.sampled_from([0, 1.5, "a", None]), max_size=3),
    st.dictionaries(st.sampled_from(["name", "inputs", "x"]), st.integers(), max_size=2),
)


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(kind: str, problem: object) -> tuple[int, str, str]:
        file = tmp_path / "problem.json"
        file.write_text(json.dumps(problem))
        code = main(["plan", kind, str(file)])
        return code, *capsys.readouterr()

    return run


def check(plan: Any, kind: str, problem: object) -> None:
    code, out, err = plan(kind, problem)
    assert code in (0, 2, 3), (err, problem)
    assert (code == 2) == bool(err)
    assert (code == 2) == (out == "")
    assert err.count("\n") <= 1
    assert "NaN" not in out


@pytest.mark.parametrize(
    ("kind", "at", "value"),
    [
        ("replication", ("operators", 1, "resources"), 2**63),
        ("replication", ("nodes", 1, "resources"), 2**63),
        ("replication", ("datastore", "bytes_per_s", 0), 5e-324),
        ("resilient", ("graph", "operators", 0, "cost"), 5e-324),
        ("resilient", ("graph", "operators", 1, "window"), 5e-324),
    ],
)
def test_a_value_that_once_was_a_fault_of_our_own_is_none(
    kind: str, at: Place, value: float, plan: Any
) -> None:
    check(plan, kind, with_value(PROBLEMS[kind], at, value))


RESTART = {"downtime": "restart"}
LOCAL = {"local_bytes_per_s": [10**7] * 3}


@pytest.mark.parametrize("engine", [{}, RESTART, RESTART | LOCAL, {"distinct": True}])
def test_a_number_beyond_machine_integers_is_a_number_like_any_other(
    engine: dict[str, Any], plan: Any
) -> None:
    problem = PROBLEM | engine
    for at in places(problem):
        if isinstance(value_at(problem, at), int | float):
            check(plan, "replication", with_value(problem, at, 10**30))


def test_huge_whole_numbers_are_planned_like_their_floats(plan: Any) -> None:
    def planned(value: float) -> dict[str, Any]:
        problem = with_value(PROBLEM | RESTART, ("nodes", 0, "speedup"), value)
        problem = with_value(problem, ("operators", 2, "state_bytes"), value)
        code, out, _ = plan("replication", problem)
        assert code == 0
        return {**json.loads(out), "solve_s": 0}

    assert planned(10**30) == planned(1e30)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.sampled_from(PLACES), values), min_size=1, max_size=3),
    kind=st.sampled_from(sorted(PROBLEMS)),
)
def test_any_values_in_any_fields_are_no_fault_of_our_own(
    changes: list[tuple[tuple[str, Place], object]], kind: str, plan: Any
) -> None:
    problem = PROBLEMS[kind]
    for (of, at), value in changes:
        if of == kind:
            problem = with_value(problem, at, value)
    check(plan, kind, problem)
