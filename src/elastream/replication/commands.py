"""``elastream plan replication``: replicas and hosts of the operators of a graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from elastream.cli.plan.printing import ProblemFile, Seconds, effort_of, print_plan, refuse
from elastream.cli.problem_files import Fields, expect_fields, object_fields, read_fields
from elastream.model.checks import abbreviate, count, non_negatives
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.replication.model.latency import Latency, Polynomial, Queue
from elastream.replication.model.problem import (
    Bounds,
    Datastore,
    Links,
    Node,
    Operator,
    ReplicationProblem,
    Stream,
    Weights,
)

VALUES_A_SECOND: Final = 150_000_000
"""Effort that an ordinary core spends in a second."""


def replication(file: ProblemFile, seconds: Seconds = None) -> None:
    """How many replicas of each operator, and where, proven best.

    Fields: operators, streams, nodes, links, datastore, sync_ms, bounds, weights; if it runs
    already, current; restricted, distinct, downtime. docs/reference/plan-files.md has an example.
    A plan that is not proven optimal with the effort given is "feasible" and has its proven gap.
    """
    from elastream.replication.planner.exact import EFFORT
    from elastream.replication.planner.exact import replication as planner

    problem = replication_problem(read_fields(file))
    started = time.perf_counter()
    try:
        outcome = planner(problem, effort=effort_of(seconds, VALUES_A_SECOND, EFFORT))
    except ProblemError as error:
        if error.field == "effort":
            raise ProblemError("--seconds", error.why) from error
        raise
    elapsed_s = time.perf_counter() - started
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    print_plan(
        {
            "status": outcome.status,
            "objective": outcome.objective,
            "deployment": outcome.deployment,
            "response_ms": outcome.response_ms,
            "cost": outcome.cost,
            "downtime_ms": outcome.downtime_ms,
            "gap": outcome.gap,
            "solve_s": round(elapsed_s, 3),
        }
    )


def replication_problem(data: Fields) -> ReplicationProblem:
    """Return the problem of a file's fields; most of them are checked by the problem itself."""
    expect_fields(
        "",
        data,
        required=(
            "operators", "streams", "nodes", "links", "datastore", "sync_ms", "bounds", "weights",
        ),
        optional=("current", "restricted", "downtime", "local_bytes_per_s", "distinct"),
    )  # fmt: skip
    links = object_fields("links", data["links"], required=("delay_ms", "cost"))
    store = object_fields("datastore", data["datastore"], required=("delay_ms", "bytes_per_s"))
    bounds = ("response_ms", "cost", "downtime_ms")
    weights = ("response", "cost", "downtime")
    return ReplicationProblem(
        tuple(_operator(field, each) for field, each in _each("operators", data["operators"])),
        tuple(_stream(field, each) for field, each in _each("streams", data["streams"])),
        tuple(_node(field, each) for field, each in _each("nodes", data["nodes"])),
        Links(**{name: _rows(f"links.{name}", each) for name, each in links.items()}),
        Datastore(**{n: non_negatives(f"datastore.{n}", each) for n, each in store.items()}),
        data["sync_ms"],
        Bounds(**object_fields("bounds", data["bounds"], required=bounds)),
        Weights(**object_fields("weights", data["weights"], required=weights)),
        _current(data["current"]) if "current" in data else None,
        _flag("restricted", data.get("restricted", False)),
        data.get("downtime", "pause"),
        _local(data),
        _flag("distinct", data.get("distinct", False)),
    )


def _each(field: str, values: object, what: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of a list, each with its path."""
    if not isinstance(values, list):
        raise ProblemError(field, f"{abbreviate(values)} is not a list{what}")
    yield from ((f"{field}[{i}]", value) for i, value in enumerate(values))


def _rows(field: str, value: object) -> tuple[tuple[int | float, ...], ...]:
    return tuple(non_negatives(at, row) for at, row in _each(field, value, " of rows"))


def _operator(field: str, value: object) -> Operator:
    numbers = ("state_bytes", "code_bytes", "cost", "resources")
    data = object_fields(
        field,
        value,
        required=("name", *numbers, "max_replicas"),
        optional=("service_rate", "latency_ms", "nodes"),
    )
    return Operator(
        data["name"],
        _latency(field, data),
        **{name: data[name] for name in numbers},
        max_replicas=count(f"{field}.max_replicas", data["max_replicas"], least=1),
        nodes=_names(f"{field}.nodes", data["nodes"]) if "nodes" in data else None,
    )


def _latency(field: str, data: Fields) -> Latency:
    if ("service_rate" in data) == ("latency_ms" in data):
        raise ProblemError(field, "needs either service_rate or latency_ms")
    if "service_rate" in data:
        return Queue(data["service_rate"])
    return Polynomial(tuple(each for _, each in _each(f"{field}.latency_ms", data["latency_ms"])))


def _stream(field: str, value: object) -> Stream:
    data = object_fields(field, value, required=("from", "to", "rate"))
    return Stream(data["from"], data["to"], data["rate"])


def _node(field: str, value: object) -> Node:
    required = ("name", "resources", "speedup", "spawn_ms")
    return Node(**object_fields(field, value, required=required, optional=("price",)))


def _current(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ProblemError("current", f"{abbreviate(value)} is not an object")
    return {
        name: _names(f"current.{abbreviate(name)[1:-1]}", nodes) for name, nodes in value.items()
    }


def _local(data: Fields) -> tuple[int | float, ...] | None:
    field = "local_bytes_per_s"
    if field not in data:
        return None
    if data.get("downtime") != "restart":
        raise ProblemError(field, 'counts only with "downtime": "restart"')
    return non_negatives(field, data[field])


def _names(field: str, values: object) -> tuple[Any, ...]:
    return tuple(name for _, name in _each(field, values, " of names"))


def _flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ProblemError(field, f"{abbreviate(value)} is neither true nor false")
    return value
