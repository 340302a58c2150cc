"""The replication problem of paper 004: an operator graph on a graph of resources (section 3).

Names are those of the problem file (``docs/reference/plan-files.md``). A problem is validated when
created: numbers are finite, names are known, streams have no cycles. Anything else raises
:class:`~elastream.model.errors.ProblemError` with the path of the field.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from elastream.model.checks import (
    Number,
    abbreviate,
    count,
    non_negative,
    non_negatives,
    positive,
    zero_or_more,
)
from elastream.model.errors import ProblemError
from elastream.replication.model.latency import Latency, Queue

_MOST_SIZES = 1000
"""Replica counts at which a polynomial is evaluated."""

Deployment = Mapping[str, tuple[str, ...]]
"""The node of each replica, by operator; a node occurs once for each replica it holds."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A vertex of the application; a source is one without incoming streams."""

    name: str
    latency: Latency
    state_bytes: Number = 0
    """Total state of all its replicas."""
    code_bytes: Number = 0
    cost: Number = 1
    """Cost per hour of one unit of resources of one replica."""
    resources: Number = 1
    """Resources that one replica uses on its node."""
    max_replicas: int = 1
    nodes: tuple[str, ...] | None = None
    """The nodes it may run on; None: all of them."""
    busy: tuple[Number, ...] = ()
    """Slots that the fullest of 1, 2, ... replicas keeps busy; empty: none."""

    def busy_by(self, replicas: int) -> Number:
        """Return the slots that the fullest of this many replicas keeps busy."""
        return self.busy[min(replicas, len(self.busy)) - 1] if self.busy else 0


@dataclass(frozen=True, slots=True)
class Stream:
    """An edge of the application."""

    source: str
    target: str
    rate: Number
    """Tuples per second."""


@dataclass(frozen=True, slots=True)
class Node:
    """A computing resource."""

    name: str
    resources: Number = 1
    speedup: Number = 1
    """Processing speed; above zero. 1 is the speed at which latencies were measured."""
    spawn_ms: Number = 0
    """Time to start replicas."""
    price: Number = 0
    """Cost per hour of the node while it holds any replica, however many operators share it."""
    slots: Number = 1
    """Slots that all replicas on it together may keep busy (equation 18)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Operators that run one after another, as the stages of a batch do."""

    operators: tuple[str, ...]
    most: Number
    """Upper bound on the sum of what their fullest replicas keep busy, each per slot of its
    node; above zero. Beyond 1 a batch would take longer than the time whose rows it reads."""


@dataclass(frozen=True, slots=True)
class Links:
    """Links between nodes: row u, column v is the link from u to v, in the order of nodes."""

    delay_ms: tuple[tuple[Number, ...], ...]
    cost: tuple[tuple[Number, ...], ...]
    """Cost per hour of one tuple per second."""


@dataclass(frozen=True, slots=True)
class Datastore:
    """Where code is kept and state is staged; one entry per node."""

    delay_ms: tuple[Number, ...]
    """One way; a transfer pays it twice."""
    bytes_per_s: tuple[Number, ...]
    """Above zero."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds on the metrics; each above zero."""

    response_ms: Number
    cost: Number
    downtime_ms: Number


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each metric; only their proportions matter."""

    response: Number
    cost: Number
    downtime: Number


@dataclass(frozen=True)
class ReplicationProblem:
    """How many replicas each operator gets, and where."""

    operators: tuple[Operator, ...]
    streams: tuple[Stream, ...]
    nodes: tuple[Node, ...]
    links: Links
    datastore: Datastore
    sync_ms: Number
    """Time that any change of an operator costs before anything is transferred."""
    bounds: Bounds
    weights: Weights
    current: Deployment | None = None
    """Where the replicas are; None before the first deployment."""
    restricted: bool = False
    """Each operator may differ from ``current`` by one replica added, removed or replaced."""
    downtime: Literal["pause", "restart"] = "pause"
    """``pause``: only what changes stops (appendix A.1). ``restart``: everything stops (A.2)."""
    local_bytes_per_s: tuple[Number, ...] | None = None
    """Speed of each node's swapping area, for ``restart``; None: swapping takes no time."""
    distinct: bool = False
    """No operator may have two replicas on one node, as on Spark, where an executor either holds a
    share of an operator's state or holds none."""
    batches: tuple[Batch, ...] = ()

    def __post_init__(self) -> None:
        """Reject an invalid problem with the path of the field."""
        _check_nodes(self)
        _check_operators(self)
        _check_streams(self)
        _check_goal(self)
        _check_current(self)
        _check_latencies(self)

    @cached_property
    def input_rates(self) -> tuple[float, ...]:
        """Tuples per second into each operator; for a source, the tuples it sends."""
        incoming = dict.fromkeys((operator.name for operator in self.operators), 0.0)
        outgoing = dict(incoming)
        for stream in self.streams:
            incoming[stream.target] += stream.rate
            outgoing[stream.source] += stream.rate
        fed = {stream.target for stream in self.streams}
        return tuple(
            incoming[operator.name] if operator.name in fed else outgoing[operator.name]
            for operator in self.operators
        )

    @cached_property
    def scaled_weights(self) -> Weights:
        """The weights that equation 12 uses: they sum to 1; without ``current`` downtime has 0."""
        downtime = 0 if self.current is None else self.weights.downtime
        total = self.weights.response + self.weights.cost + downtime
        return Weights(self.weights.response / total, self.weights.cost / total, downtime / total)

    def allowed_nodes(self, operator: Operator) -> tuple[str, ...]:
        """Return the nodes that the operator may run on, in the order of the nodes."""
        names = tuple(node.name for node in self.nodes)
        if operator.nodes is None:
            return names
        allowed = set(operator.nodes)
        return tuple(name for name in names if name in allowed)


def _check_nodes(problem: ReplicationProblem) -> None:
    """Check the nodes and everything that has an entry for each of them."""
    if not problem.nodes:
        raise ProblemError("nodes", "is empty; give at least one")
    _check_names("nodes", [node.name for node in problem.nodes])
    for i, node in enumerate(problem.nodes):
        _check_numbers(f"nodes[{i}]", node, "resources", "spawn_ms", "price", "slots")
        positive(f"nodes[{i}].speedup", node.speedup)
    size = len(problem.nodes)
    for name, matrix in (("delay_ms", problem.links.delay_ms), ("cost", problem.links.cost)):
        field = f"links.{name}"
        if len(matrix) != size:
            raise ProblemError(field, f"has {len(matrix)} rows where {size} are needed")
        for i, row in enumerate(matrix):
            non_negatives(f"{field}[{i}]", row, length=size)
    non_negatives("datastore.delay_ms", problem.datastore.delay_ms, length=size)
    _check_speeds("datastore.bytes_per_s", problem.datastore.bytes_per_s, size)
    if problem.local_bytes_per_s is not None:
        _check_speeds("local_bytes_per_s", problem.local_bytes_per_s, size)
    non_negative("sync_ms", problem.sync_ms)


def _check_operators(problem: ReplicationProblem) -> None:
    """Check the operators; nodes they name must exist."""
    if not problem.operators:
        raise ProblemError("operators", "is empty; give at least one")
    _check_names("operators", [operator.name for operator in problem.operators])
    names = {node.name for node in problem.nodes}
    for i, operator in enumerate(problem.operators):
        field = f"operators[{i}]"
        _check_numbers(field, operator, "state_bytes", "code_bytes", "cost")
        zero_or_more(f"{field}.resources", operator.resources)
        count(f"{field}.max_replicas", operator.max_replicas, least=1)
        non_negatives(f"{field}.busy", operator.busy)
        if operator.nodes is not None:
            _check_names(f"{field}.nodes", list(operator.nodes))
            if not operator.nodes:
                raise ProblemError(f"{field}.nodes", "is empty; leave it out to allow every node")
            for j, node in enumerate(operator.nodes):
                _check_known(f"{field}.nodes[{j}]", node, names, "node")
    known = {operator.name for operator in problem.operators}
    for i, batch in enumerate(problem.batches):
        positive(f"batches[{i}].most", batch.most)
        for j, name in enumerate(batch.operators):
            _check_known(f"batches[{i}].operators[{j}]", name, known, "operator")


def _check_streams(problem: ReplicationProblem) -> None:
    """Check that streams join known operators, at most one per pair, and form no cycle."""
    names = {operator.name for operator in problem.operators}
    seen: set[tuple[str, str]] = set()
    for i, stream in enumerate(problem.streams):
        for end, name in (("from", stream.source), ("to", stream.target)):
            _check_known(f"streams[{i}].{end}", name, names, "operator")
        non_negative(f"streams[{i}].rate", stream.rate)
        if (stream.source, stream.target) in seen:
            ends = f"{abbreviate(stream.source)} to {abbreviate(stream.target)}"
            raise ProblemError(f"streams[{i}]", f"a stream from {ends} is given twice")
        seen.add((stream.source, stream.target))
    sources: dict[str, list[str]] = {}
    for source, target in sorted(seen):
        sources.setdefault(target, []).append(source)
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        path = " > ".join(abbreviate(name) for name in error.args[1])
        raise ProblemError("streams", f"lead back to where they came from: {path}") from None


def _check_goal(problem: ReplicationProblem) -> None:
    """Check the bounds and the weights."""
    bounds, weights = problem.bounds, problem.weights
    for name in ("response_ms", "cost", "downtime_ms"):
        positive(f"bounds.{name}", getattr(bounds, name))
    _check_numbers("weights", weights, "response", "cost", "downtime")
    if not (weights.response or weights.cost or weights.downtime):
        raise ProblemError("weights", "are all 0; nothing would count")
    if problem.current is None and not (weights.response or weights.cost):
        raise ProblemError("weights", "count the downtime alone, and without current there is none")
    if problem.downtime not in ("pause", "restart"):
        known = 'is not a way to move; give "pause" or "restart"'
        raise ProblemError("downtime", f"{abbreviate(problem.downtime)} {known}")


def _check_current(problem: ReplicationProblem) -> None:
    """Check the current deployment: it may be overloaded, but must not contradict the rest."""
    if problem.current is None:
        if problem.restricted:
            raise ProblemError("restricted", "needs current, the deployment it may differ from")
        return
    operators = {operator.name: operator for operator in problem.operators}
    for name in problem.current:
        _check_known("current", name, operators, "operator")
    known = {node.name for node in problem.nodes}
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
        allowed = set(problem.allowed_nodes(operator))
        for i, node in enumerate(replicas):
            _check_known(f"{field}[{i}]", node, known, "node")
            if node not in allowed:
                raise ProblemError(
                    f"{field}[{i}]", f"the operator may not run on {abbreviate(node)}"
                )


def _check_latencies(problem: ReplicationProblem) -> None:
    """Check that no latency is negative at a rate that a replica can get."""
    for i, operator in enumerate(problem.operators):
        if isinstance(operator.latency, Queue):
            non_negative(f"operators[{i}].service_rate", operator.latency.service_rate)
            continue
        field = f"operators[{i}].latency_ms"
        coefficients = operator.latency.coefficients
        if not coefficients:
            raise ProblemError(field, "is empty; give at least the constant")
        for j, coefficient in enumerate(coefficients):
            if isinstance(coefficient, bool) or not isinstance(coefficient, int | float):
                raise ProblemError(f"{field}[{j}]", f"{abbreviate(coefficient)} is not a number")
            non_negative(f"{field}[{j}]", abs(coefficient))
        for replicas in range(1, min(operator.max_replicas, _MOST_SIZES) + 1):
            rate = problem.input_rates[i] / replicas
            latency = operator.latency.latency_ms(rate)
            if latency is None or not 0 <= latency < float("inf"):
                at = f"is {latency:g} ms at {rate:g} tuples a second; give a polynomial above zero"
                raise ProblemError(field, at)


def _check_numbers(field: str, of: object, *names: str) -> None:
    for name in names:
        non_negative(f"{field}.{name}", getattr(of, name))


def _check_known(field: str, name: object, known: Collection[str], what: str) -> None:
    if not isinstance(name, str) or name not in known:
        raise ProblemError(field, f"there is no {what} {abbreviate(name)}")


def _check_names(field: str, names: list[str]) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        path = f"{field}[{i}]" if field.endswith(".nodes") else f"{field}[{i}].name"
        if not isinstance(name, str) or not name:
            raise ProblemError(path, f"{abbreviate(name)} is not a name")
        if name in seen:
            raise ProblemError(path, f"{abbreviate(name)} is given twice")
        seen.add(name)


def _check_speeds(field: str, values: object, size: int) -> None:
    for i, value in enumerate(non_negatives(field, values, length=size)):
        positive(f"{field}[{i}]", value)
