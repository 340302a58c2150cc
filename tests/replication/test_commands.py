from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from elastream.cli.main import main

PROBLEM: dict[str, Any] = {
    "operators": [
        {"name": "source", "service_rate": 284, "state_bytes": 82, "code_bytes": 300000, "cost": 1,
         "resources": 1, "max_replicas": 1, "nodes": ["a"]},
        {"name": "parse", "service_rate": 133, "state_bytes": 0, "code_bytes": 300000, "cost": 1,
         "resources": 1, "max_replicas": 2},
        {"name": "rank", "latency_ms": [1, 0.01], "state_bytes": 480, "code_bytes": 300000,
         "cost": 1, "resources": 1, "max_replicas": 2, "nodes": ["b", "c"]},
    ],
    "streams": [
        {"from": "source", "to": "parse", "rate": 120},
        {"from": "parse", "to": "rank", "rate": 60},
    ],
    "nodes": [
        {"name": "a", "resources": 2, "speedup": 1, "spawn_ms": 500},
        {"name": "b", "resources": 2, "speedup": 1, "spawn_ms": 500},
        {"name": "c", "resources": 2, "speedup": 2, "spawn_ms": 500},
    ],
    "links": {
        "delay_ms": [[0, 12, 20], [12, 0, 5], [20, 5, 0]],
        "cost": [[0, 0.02, 0.02], [0.02, 0, 0.02], [0.02, 0.02, 0]],
    },
    "datastore": {"delay_ms": [5, 5, 5], "bytes_per_s": [12500000, 12500000, 12500000]},
    "sync_ms": 250,
    "bounds": {"response_ms": 175, "cost": 30, "downtime_ms": 7500},
    "weights": {"response": 0.3, "cost": 0.3, "downtime": 0.4},
    "current": {"source": ["a"], "parse": ["a"], "rank": ["b"]},
}  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the problem with one value changed, or left out where it is Ellipsis."""
    problem = copy.deepcopy(PROBLEM)
    place: Any = problem
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return problem


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(problem: object, *options: str) -> tuple[int, str, str]:
        file = tmp_path / "problem.json"
        file.write_text(json.dumps(problem))
        code = main(["plan", "replication", str(file), *options])
        return code, *capsys.readouterr()

    return run


def test_the_fields_of_the_contract_are_printed(plan: Any) -> None:
    code, out, err = plan(PROBLEM)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == [
        "status", "objective", "deployment", "response_ms", "cost", "downtime_ms", "gap", "solve_s",
    ]  # fmt: skip
    assert (found["status"], found["gap"]) == ("optimal", 0)
    assert list(found["deployment"]) == ["source", "parse", "rank"]
    assert found["solve_s"] >= 0


def test_without_current_there_is_no_downtime(plan: Any) -> None:
    code, out, _ = plan(changed("current", ...))
    assert code == 0
    assert json.loads(out)["downtime_ms"] == 0


@pytest.mark.parametrize("field", ["restricted", "restart"])
def test_restricted_and_restart_are_understood(plan: Any, field: str) -> None:
    problem = (
        changed("restricted", True) if field == "restricted" else changed("downtime", "restart")
    )
    code, out, _ = plan(problem)
    assert code == 0
    assert json.loads(out)["status"] == "optimal"


def test_the_price_of_a_node_in_use_is_in_the_cost(plan: Any) -> None:
    free, dear = (json.loads(plan(p)[1]) for p in (PROBLEM, changed("nodes.0.price", 2)))
    assert dear["deployment"] == free["deployment"]
    assert dear["cost"] == pytest.approx(free["cost"] + 2)


def test_a_price_can_empty_a_node(plan: Any) -> None:
    free, dear = (json.loads(plan(p)[1]) for p in (PROBLEM, changed("nodes.1.price", 20)))
    assert "b" in free["deployment"]["rank"]
    assert dear["status"] == "optimal"
    assert not any("b" in replicas for replicas in dear["deployment"].values())


def test_replicas_that_no_node_has_room_for_are_not_looked_at(plan: Any) -> None:
    few, many = (json.loads(plan(changed("operators.0.max_replicas", n))[1]) for n in (8, 10**30))
    assert {**many, "solve_s": 0} == {**few, "solve_s": 0}


WRONG = [
    ("operators.1.name", "source", "operators[1].name: 'source' is given twice"),
    ("operators.1.name", 7, "operators[1].name: 7 is not a name"),
    ("operators.0.nodes", ["x"], "operators[0].nodes[0]: there is no node 'x'"),
    ("operators.0.nodes", [], "operators[0].nodes: is empty; leave it out to allow every node"),
    ("operators.0.nodes", None, "operators[0].nodes: None is not a list of names"),
    ("operators.0.max_replicas", 0, "operators[0].max_replicas: 0 is too small; the least is 1"),
    ("operators.0.resources", 5e-324,
     "operators[0].resources: 5e-324 is too close to zero; give 1e-100 or more"),
    ("operators.0.service_rate", -1,
     "operators[0].service_rate: -1 is negative; give zero or more"),
    ("operators.0.latency_ms", [1], "operators[0]: needs either service_rate or latency_ms"),
    ("operators.0.service_rate", ..., "operators[0]: needs either service_rate or latency_ms"),
    ("operators.2.latency_ms", [1, -1], "operators[2].latency_ms: is -59 ms at 60 tuples a second; "
     "give a polynomial above zero"),
    ("operators.2.latency_ms", [], "operators[2].latency_ms: is empty; give at least the constant"),
    ("operators.2.latency_ms", ["1"], "operators[2].latency_ms[0]: '1' is not a number"),
    ("operators", [], "operators: is empty; give at least one"),
    ("operators.0.colour", 1, "operators[0].colour: is not a field; the fields are name, "
     "state_bytes, code_bytes, cost, resources, max_replicas, service_rate, latency_ms, nodes"),
    ("streams.0.from", "sauce", "streams[0].from: there is no operator 'sauce'"),
    ("streams.0.to", None, "streams[0].to: there is no operator None"),
    ("streams.1.rate", -60, "streams[1].rate: -60 is negative; give zero or more"),
    ("streams.1.to", "source",
     "streams: lead back to where they came from: 'source' > 'parse' > 'source'"),
    ("streams.1", {"from": "source", "to": "parse", "rate": 1},
     "streams[1]: a stream from 'source' to 'parse' is given twice"),
    ("nodes.0.speedup", 0, "nodes[0].speedup: 0 is not positive; give more than zero"),
    ("nodes.2.price", -1, "nodes[2].price: -1 is negative; give zero or more"),
    ("nodes.2.price", None, "nodes[2].price: None is not a number"),
    ("nodes.2.prize", 1,
     "nodes[2].prize: is not a field; the fields are name, resources, speedup, spawn_ms, price"),
    ("nodes.1.name", "a", "nodes[1].name: 'a' is given twice"),
    ("nodes", [], "nodes: is empty; give at least one"),
    ("links.delay_ms", [[0, 1], [1, 0]], "links.delay_ms: has 2 rows where 3 are needed"),
    ("links.delay_ms.1", [0, 1], "links.delay_ms[1]: has 2 entries where 3 are needed"),
    ("links.delay_ms.1.2", None, "links.delay_ms[1][2]: None is not a number"),
    ("links.cost.0", 5, "links.cost[0]: 5 is not a list"),
    ("datastore.bytes_per_s.2", 0,
     "datastore.bytes_per_s[2]: 0 is not positive; give more than zero"),
    ("bounds.response_ms", 0, "bounds.response_ms: 0 is not positive; give more than zero"),
    ("bounds.cost", 0, "bounds.cost: 0 is not positive; give more than zero"),
    ("bounds.downtime_ms", 0, "bounds.downtime_ms: 0 is not positive; give more than zero"),
    ("weights", {"response": 0, "cost": 0, "downtime": 0},
     "weights: are all 0; nothing would count"),
    ("current.rank", ["x"], "current.rank[0]: there is no node 'x'"),
    ("current.rank", ["a"], "current.rank[0]: the operator may not run on 'a'"),
    ("current.rank", ["b", "b", "b"], "current.rank: has 3 replicas, and max_replicas is 2"),
    ("current.rank", [], "current.rank: has no replicas"),
    ("current.rank", ..., "current.rank: is missing"),
    ("current.other", ["a"], "current: there is no operator 'other'"),
    ("current", None, "current: None is not an object"),
    ("restricted", 1, "restricted: 1 is neither true nor false"),
    ("downtime", "never", "downtime: 'never' is not a way to move; give \"pause\" or \"restart\""),
    ("local_bytes_per_s", [1, 1, 1],
     'local_bytes_per_s: counts only with "downtime": "restart"'),
    ("sync_ms", "250", "sync_ms: '250' is not a number"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "line"), WRONG, ids=[line[:50] for _, _, line in WRONG])
def test_a_wrong_problem_is_refused_by_name_in_one_line(
    plan: Any, path: str, value: Any, line: str
) -> None:
    assert plan(changed(path, value)) == (2, "", f"elastream: {line}\n")


def test_downtime_alone_cannot_be_weighed_before_the_first_deployment(plan: Any) -> None:
    problem = changed("current", ...) | {"weights": {"response": 0, "cost": 0, "downtime": 1}}
    line = "weights: count the downtime alone, and without current there is none"
    assert plan(problem) == (2, "", f"elastream: {line}\n")


def test_restricted_needs_a_current_deployment(plan: Any) -> None:
    line = "restricted: needs current, the deployment it may differ from"
    problem = changed("current", ...) | {"restricted": True}
    assert plan(problem) == (2, "", f"elastream: {line}\n")


@pytest.mark.parametrize(
    ("operator", "most", "said"),
    [(1, 2000, "up to 2000 replicas on 3 nodes"), (0, 10**30, "up to 400000 replicas on 1 node")],
)
def test_too_many_deployments_to_hold_are_refused(
    plan: Any, operator: int, most: int, said: str
) -> None:
    problem = changed(f"operators.{operator}.max_replicas", most)
    problem["operators"][operator]["resources"] = 0  # else no more than nodes have room for
    code, out, err = plan(problem)
    assert (code, out) == (2, "")
    assert err.startswith(f"elastream: operators[{operator}].max_replicas: {said}")


def test_a_current_deployment_that_is_overloaded_by_now_is_left(plan: Any) -> None:
    code, out, _ = plan(changed("operators.1.service_rate", 110))
    assert code == 0
    assert len(json.loads(out)["deployment"]["parse"]) == 2


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("operators.1.service_rate", 60,
         "operator parse is saturated at 120 tuples a second by 2 replicas"),
        ("bounds.response_ms", 5, "the bound response_ms is 5, and no deployment"),
        ("bounds.cost", 2, "the bound cost is 2, and no deployment"),
        ("nodes.0.resources", 0,
         "operator source needs 1 replica of 1 resources at least, and its nodes have no room"),
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_named(plan: Any, path: str, value: Any, reason: str) -> None:
    code, out, err = plan(changed(path, value))
    assert (code, err) == (3, "")
    found = json.loads(out)
    assert list(found) == ["status", "reason"]
    assert found["reason"].startswith(reason)
