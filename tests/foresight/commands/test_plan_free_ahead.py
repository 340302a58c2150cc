from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elastream.cli.main import main

STEP: dict[str, Any] = {
    "work": [3, 1, 2, 4, 2],
    "state": [10, 5, 0, 7, 3],
    "current": [0, 0, 0, 1, 1],
    "nodes": 2,
    "tau": 0.6,
}
FUTURES = [
    {"odds": 0.7, "targets": [{"nodes": 3, "tau": 0.4}]},
    {"odds": 0.3, "targets": [{"nodes": 2, "tau": 0.2}]},
]
CHAIN = {"sizes": [2, 3], "matrix": [[0, 1], [1, 0]], "gamma": 0.8}


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(problem: object) -> tuple[int, str, str]:
        file = tmp_path / "problem.json"
        file.write_text(json.dumps(problem))
        code = main(["plan", "free-ahead", str(file)])
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("fields", [{"futures": FUTURES}, {"chain": CHAIN}])
def test_few_tasks_are_planned_to_the_optimum(plan: Any, fields: dict[str, Any]) -> None:
    code, out, err = plan(STEP | fields)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == [
        "status", "cost", "nodes_of_tasks", "moves", "limit", "max_load", "projected",
        "standard_error", "free_step_cost", "most_cost", "total", "least_total",
        "least_total_standard_error", "looked_at",
    ]  # fmt: skip
    assert found["status"] == "optimal"
    assert found["total"] == found["least_total"]
    assert found["cost"] == sum(move["state"] for move in found["moves"])


def test_many_tasks_are_planned_with_a_bound(plan: Any) -> None:
    many = {
        "work": [1 + j % 5 for j in range(40)],
        "state": [1 + j % 7 for j in range(40)],
        "current": [j % 4 for j in range(40)],
        "nodes": 3,
        "tau": 0.3,
        "chain": {"sizes": [3, 4], "matrix": [[0, 1], [1, 0]], "gamma": 0.8},
        "past": [{"nodes": 4, "work": [1 + j % 3 for j in range(40)]}],
    }
    code, out, _ = plan(many)
    found = json.loads(out)
    assert (code, found["status"]) == (0, "feasible")
    assert found["cost"] <= found["most_cost"]
    assert found["least_total"] <= found["total"]
    assert found["looked_at"] > 1


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "chain: or futures must say what may follow"),
        ({"futures": FUTURES, "chain": CHAIN}, "chain: or futures must say what may follow"),
        ({"chain": CHAIN, "gamma": 1}, "gamma: a chain has a gamma of its own"),
        ({"futures": FUTURES, "past": []}, "past: is for a chain"),
        ({"futures": [7]}, "futures[0]: 7 is not an object"),
        ({"futures": FUTURES[:1]}, "futures: have odds that sum to 0.7, not to 1"),
        ({"futures": [{"odds": 1, "targets": [{"nodes": 0, "tau": 1}]}]}, "futures[0].targets[0]"),
        ({"chain": CHAIN, "past": [{"nodes": 2, "work": [1]}]}, "past[0].work"),
        ({"chain": CHAIN, "more": 1}, "more: is not a field"),
    ],
)
def test_what_is_wrong_is_one_line(plan: Any, fields: dict[str, Any], line: str) -> None:
    code, out, err = plan(STEP | fields)
    assert (code, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1


def test_what_cannot_fit_exits_with_3(plan: Any) -> None:
    code, out, _ = plan(STEP | {"work": [9, 0, 0, 0, 0], "tau": 0, "chain": CHAIN})
    assert code == 3
    assert json.loads(out)["status"] == "infeasible"
