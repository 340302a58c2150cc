"""``elastream plan replication``: replicas and hosts of the operators of a graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from elastream.cli.plan.printing import ProblemFile, Seconds, effort_of, print_plan, refuse
from elastream.cli.problem_files import Fields, expect_fields, read_fields
from elastream.model.checks import abbreviate, count, non_negative, non_negatives
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

_Parsed = TypeVar("_Parsed")

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
    """Return the problem of a file's fields."""
    expect_fields(
        "",
        data,
        required=(
            "operators", "streams", "nodes", "links", "datastore", "sync_ms", "bounds", "weights",
        ),
        optional=("current", "restricted", "downtime", "local_bytes_per_s", "distinct"),
    )  # fmt: skip
    return ReplicationProblem(
        _list_of("operators", data["operators"], _operator),
        _list_of("streams", data["streams"], _stream),
        _list_of("nodes", data["nodes"], _node),
        _links(data["links"]),
        _datastore(data["datastore"]),
        non_negative("sync_ms", data["sync_ms"]),
        Bounds(**_numbers("bounds", data["bounds"], ("response_ms", "cost", "downtime_ms"))),
        Weights(**_numbers("weights", data["weights"], ("response", "cost", "downtime"))),
        _current(data["current"]) if "current" in data else None,
        _flag("restricted", data.get("restricted", False)),
        data.get("downtime", "pause"),
        _local(data),
        _flag("distinct", data.get("distinct", False)),
    )


def _list_of(
    field: str, values: object, parse: Callable[[str, Fields], _Parsed]
) -> tuple[_Parsed, ...]:
    if not isinstance(values, list):
        raise ProblemError(field, f"{abbreviate(values)} is not a list")
    return tuple(parse(f"{field}[{i}]", _object(f"{field}[{i}]", v)) for i, v in enumerate(values))


def _object(field: str, value: object) -> Fields:
    if not isinstance(value, dict):
        raise ProblemError(field, f"{abbreviate(value)} is not an object")
    return value


def _operator(field: str, data: Fields) -> Operator:
    numbers = ("state_bytes", "code_bytes", "cost", "resources")
    required = ("name", *numbers, "max_replicas")
    expect_fields(
        f"{field}.", data, required=required, optional=("service_rate", "latency_ms", "nodes")
    )
    return Operator(
        data["name"],
        _latency(field, data),
        **{name: non_negative(f"{field}.{name}", data[name]) for name in numbers},
        max_replicas=count(f"{field}.max_replicas", data["max_replicas"], least=1),
        nodes=_names(f"{field}.nodes", data["nodes"]) if "nodes" in data else None,
    )


def _latency(field: str, data: Fields) -> Latency:
    models = [name for name in ("service_rate", "latency_ms") if name in data]
    if len(models) != 1:
        raise ProblemError(field, "needs either service_rate or latency_ms")
    if models == ["service_rate"]:
        return Queue(non_negative(f"{field}.service_rate", data["service_rate"]))
    coefficients = data["latency_ms"]
    if not isinstance(coefficients, list):
        raise ProblemError(f"{field}.latency_ms", f"{abbreviate(coefficients)} is not a list")
    return Polynomial(tuple(coefficients))


def _stream(field: str, data: Fields) -> Stream:
    expect_fields(f"{field}.", data, required=("from", "to", "rate"))
    return Stream(data["from"], data["to"], non_negative(f"{field}.rate", data["rate"]))


def _node(field: str, data: Fields) -> Node:
    numbers = ("resources", "speedup", "spawn_ms")
    expect_fields(f"{field}.", data, required=("name", *numbers), optional=("price",))
    price = non_negative(f"{field}.price", data.get("price", 0))
    resources, speedup, spawn_ms = (non_negative(f"{field}.{name}", data[name]) for name in numbers)
    return Node(data["name"], resources, speedup, spawn_ms, price)


def _links(value: object) -> Links:
    data = _object("links", value)
    expect_fields("links.", data, required=("delay_ms", "cost"))
    return Links(_matrix("links.delay_ms", data["delay_ms"]), _matrix("links.cost", data["cost"]))


def _matrix(field: str, rows: object) -> tuple[tuple[int | float, ...], ...]:
    if not isinstance(rows, list):
        raise ProblemError(field, f"{abbreviate(rows)} is not a list of rows")
    return tuple(non_negatives(f"{field}[{i}]", row) for i, row in enumerate(rows))


def _datastore(value: object) -> Datastore:
    data = _object("datastore", value)
    expect_fields("datastore.", data, required=("delay_ms", "bytes_per_s"))
    return Datastore(
        non_negatives("datastore.delay_ms", data["delay_ms"]),
        non_negatives("datastore.bytes_per_s", data["bytes_per_s"]),
    )


def _numbers(field: str, value: object, names: tuple[str, ...]) -> dict[str, int | float]:
    data = _object(field, value)
    expect_fields(f"{field}.", data, required=names)
    return {name: non_negative(f"{field}.{name}", data[name]) for name in names}


def _current(value: object) -> dict[str, tuple[str, ...]]:
    data = _object("current", value)
    return {
        name: _names(f"current.{abbreviate(name)[1:-1]}", nodes) for name, nodes in data.items()
    }


def _local(data: Fields) -> tuple[int | float, ...] | None:
    field = "local_bytes_per_s"
    if field not in data:
        return None
    if data.get("downtime") != "restart":
        raise ProblemError(field, 'counts only with "downtime": "restart"')
    return non_negatives(field, data[field])


def _names(field: str, values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ProblemError(field, f"{abbreviate(values)} is not a list of names")
    return tuple(values)


def _flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ProblemError(field, f"{abbreviate(value)} is neither true nor false")
    return value
