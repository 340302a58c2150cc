"""What makes a replication problem sound; each check names the field that is wrong, and why."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from elastream.model.checks import amount, amounts, count, positive, shown, zero_or_more
from elastream.model.errors import ProblemError
from elastream.replication.model.latency import Queue

if TYPE_CHECKING:
    from elastream.replication.model.problem import ReplicationProblem

__all__ = [
    "check_current",
    "check_goal",
    "check_latencies",
    "check_nodes",
    "check_operators",
    "check_streams",
]

_MOST_SIZES = 1000
"""Numbers of replicas at which a polynomial is looked at."""


def check_nodes(problem: ReplicationProblem) -> None:
    """Check the nodes and everything that has an entry for each of them."""
    if not problem.nodes:
        raise ProblemError("nodes", "is empty; give at least one")
    _check_names("nodes", [node.name for node in problem.nodes])
    for i, node in enumerate(problem.nodes):
        amount(f"nodes[{i}].resources", node.resources)
        positive(f"nodes[{i}].speedup", node.speedup)
        amount(f"nodes[{i}].spawn_ms", node.spawn_ms)
        amount(f"nodes[{i}].price", node.price)
    size = len(problem.nodes)
    for name, matrix in (("delay_ms", problem.links.delay_ms), ("cost", problem.links.cost)):
        field = f"links.{name}"
        if len(matrix) != size:
            raise ProblemError(field, f"has {len(matrix)} rows where {size} are needed")
        for i, row in enumerate(matrix):
            amounts(f"{field}[{i}]", row, length=size)
    amounts("datastore.delay_ms", problem.datastore.delay_ms, length=size)
    _check_speeds("datastore.bytes_per_s", problem.datastore.bytes_per_s, size)
    if problem.local_bytes_per_s is not None:
        _check_speeds("local_bytes_per_s", problem.local_bytes_per_s, size)
    amount("sync_ms", problem.sync_ms)


def check_operators(problem: ReplicationProblem) -> None:
    """Check the operators; nodes they name must exist."""
    if not problem.operators:
        raise ProblemError("operators", "is empty; give at least one")
    _check_names("operators", [operator.name for operator in problem.operators])
    known = {node.name for node in problem.nodes}
    for i, operator in enumerate(problem.operators):
        field = f"operators[{i}]"
        amount(f"{field}.state_bytes", operator.state_bytes)
        amount(f"{field}.code_bytes", operator.code_bytes)
        amount(f"{field}.cost", operator.cost)
        zero_or_more(f"{field}.resources", operator.resources)
        count(f"{field}.max_replicas", operator.max_replicas, least=1)
        if operator.nodes is not None:
            _check_names(f"{field}.nodes", list(operator.nodes))
            if not operator.nodes:
                raise ProblemError(f"{field}.nodes", "is empty; leave it out to allow every node")
            for j, node in enumerate(operator.nodes):
                if node not in known:
                    raise ProblemError(f"{field}.nodes[{j}]", f"there is no node {shown(node)}")


def check_streams(problem: ReplicationProblem) -> None:
    """Check that streams join known operators, once each, and never lead back."""
    known = {operator.name for operator in problem.operators}
    seen: set[tuple[str, str]] = set()
    for i, stream in enumerate(problem.streams):
        for end, name in (("from", stream.source), ("to", stream.target)):
            if not isinstance(name, str) or name not in known:
                raise ProblemError(f"streams[{i}].{end}", f"there is no operator {shown(name)}")
        amount(f"streams[{i}].rate", stream.rate)
        if (stream.source, stream.target) in seen:
            ends = f"{shown(stream.source)} to {shown(stream.target)}"
            raise ProblemError(f"streams[{i}]", f"a stream from {ends} is given twice")
        seen.add((stream.source, stream.target))
    _refuse_cycles(sorted(seen))


def check_goal(problem: ReplicationProblem) -> None:
    """Check the bounds and the weights."""
    bounds, weights = problem.bounds, problem.weights
    for name in ("response_ms", "cost", "downtime_ms"):
        positive(f"bounds.{name}", getattr(bounds, name))
    for name in ("response", "cost", "downtime"):
        amount(f"weights.{name}", getattr(weights, name))
    if not (weights.response or weights.cost or weights.downtime):
        raise ProblemError("weights", "are all 0; nothing would count")
    if problem.current is None and not (weights.response or weights.cost):
        raise ProblemError("weights", "count the downtime alone, and without current there is none")
    if problem.downtime not in ("pause", "restart"):
        known = 'is not a way to move; give "pause" or "restart"'
        raise ProblemError("downtime", f"{shown(problem.downtime)} {known}")


def check_current(problem: ReplicationProblem) -> None:
    """Check the current deployment: it may be overloaded by now, but not contradict the rest."""
    if problem.current is None:
        if problem.restricted:
            raise ProblemError("restricted", "needs current, the deployment it may differ from")
        return
    operators = {operator.name: operator for operator in problem.operators}
    for name in problem.current:
        if name not in operators:
            raise ProblemError("current", f"there is no operator {shown(name)}")
    for name, operator in operators.items():
        field = f"current.{name}"
        if name not in problem.current:
            raise ProblemError(field, "is missing")
        replicas = problem.current[name]
        if not replicas:
            raise ProblemError(field, "has no replicas")
        if len(replicas) > operator.max_replicas:
            most = f"has {len(replicas)} replicas, and max_replicas is {operator.max_replicas}"
            raise ProblemError(field, most)
        known = {node.name for node in problem.nodes}
        allowed = set(problem.allowed_nodes(operator))
        for i, node in enumerate(replicas):
            if not isinstance(node, str) or node not in known:
                raise ProblemError(f"{field}[{i}]", f"there is no node {shown(node)}")
            if node not in allowed:
                raise ProblemError(f"{field}[{i}]", f"the operator may not run on {shown(node)}")


def check_latencies(problem: ReplicationProblem) -> None:
    """Check that no latency is negative at a rate that a replica can have."""
    for i, operator in enumerate(problem.operators):
        if isinstance(operator.latency, Queue):
            amount(f"operators[{i}].service_rate", operator.latency.service_rate)
            continue
        field = f"operators[{i}].latency_ms"
        coefficients = operator.latency.coefficients
        if not coefficients:
            raise ProblemError(field, "is empty; give at least the constant")
        for j, coefficient in enumerate(coefficients):
            if isinstance(coefficient, bool) or not isinstance(coefficient, int | float):
                raise ProblemError(f"{field}[{j}]", f"{shown(coefficient)} is not a number")
            amount(f"{field}[{j}]", abs(coefficient))
        for replicas in range(1, min(operator.max_replicas, _MOST_SIZES) + 1):
            rate = problem.input_rates[i] / replicas
            latency = operator.latency.latency_ms(rate)
            if latency is None or not 0 <= latency < float("inf"):
                at = f"is {latency:g} ms at {rate:g} tuples a second; give a polynomial above zero"
                raise ProblemError(field, at)


def _check_names(field: str, names: list[str]) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        path = f"{field}[{i}]" if field.endswith(".nodes") else f"{field}[{i}].name"
        if not isinstance(name, str) or not name:
            raise ProblemError(path, f"{shown(name)} is not a name")
        if name in seen:
            raise ProblemError(path, f"{shown(name)} is given twice")
        seen.add(name)


def _check_speeds(field: str, values: object, size: int) -> None:
    for i, value in enumerate(amounts(field, values, length=size)):
        positive(f"{field}[{i}]", value)


def _refuse_cycles(edges: Iterable[tuple[str, str]]) -> None:
    before: dict[str, list[str]] = {}
    for source, target in edges:
        before.setdefault(target, []).append(source)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        path = " > ".join(shown(name) for name in error.args[1])
        raise ProblemError("streams", f"lead back to where they came from: {path}") from None
