"""The replication problem of paper 004: an operator graph on a graph of resources (section 3).

Names are those of the problem file (``docs/reference/plan-files.md``). A problem that exists is
sound: its numbers are finite, its names known, its streams free of cycles; anything else raises
:class:`~elastream.model.errors.ProblemError` with the field's path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from elastream.model.checks import Number
from elastream.replication.model import checks
from elastream.replication.model.latency import Latency

__all__ = [
    "Bounds",
    "Datastore",
    "Deployment",
    "Links",
    "Node",
    "Operator",
    "ReplicationProblem",
    "Stream",
    "Weights",
]

Deployment = Mapping[str, tuple[str, ...]]
"""The node of each replica, by operator; a node stands as often as it has replicas."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A vertex of the application; a source is one without incoming streams."""

    name: str
    latency: Latency
    state_bytes: Number = 0
    """State of all its replicas together."""
    code_bytes: Number = 0
    cost: Number = 1
    """Money an hour for one unit of resources of one replica."""
    resources: Number = 1
    """Resources that one replica takes of its node."""
    max_replicas: int = 1
    nodes: tuple[str, ...] | None = None
    """The nodes it may run on; None: all of them."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An edge of the application."""

    source: str
    target: str
    rate: Number
    """Tuples a second."""


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
    """Money an hour for the node while it holds any replica, however many operators share it."""


@dataclass(frozen=True, slots=True)
class Links:
    """What lies between nodes: row u, column v is the way from u to v, in the order of nodes."""

    delay_ms: tuple[tuple[Number, ...], ...]
    cost: tuple[tuple[Number, ...], ...]
    """Money an hour for one tuple a second."""


@dataclass(frozen=True, slots=True)
class Datastore:
    """Where code is kept and state is staged; an entry for each node."""

    delay_ms: tuple[Number, ...]
    """One way; a transfer takes it twice."""
    bytes_per_s: tuple[Number, ...]
    """Above zero."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The worst that is acceptable; each above zero."""

    response_ms: Number
    cost: Number
    downtime_ms: Number


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each metric counts; only their proportions matter."""

    response: Number
    cost: Number
    downtime: Number


@dataclass(frozen=True)
class ReplicationProblem:
    """How many replicas of each operator, and where."""

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
    """``pause``: only what changes stops (appendix A.1). ``restart``: all does (A.2)."""
    local_bytes_per_s: tuple[Number, ...] | None = None
    """Speed of each node's swapping area, for ``restart``; None: swapping takes no time."""
    distinct: bool = False
    """No operator has two replicas on one node: as on Spark, where an executor holds a share of an
    operator's state or holds none."""

    def __post_init__(self) -> None:
        """Refuse what is not a problem, by the field's path."""
        checks.check_nodes(self)
        checks.check_operators(self)
        checks.check_streams(self)
        checks.check_goal(self)
        checks.check_current(self)
        checks.check_latencies(self)

    @cached_property
    def input_rates(self) -> tuple[float, ...]:
        """Tuples a second into each operator; those of a source are what it sends."""
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
