"""Analyse: from what was observed to a replication problem (paper 004, sections 6.2 and 6.4).

========================  ====================================================================
paper                     here
========================  ====================================================================
operator i                a stateful operator of the query
its deployment U          the executors that hold a share of its partitions, each once
node u                    an executor; its speed-up is its cores over the mean
rate of a stream          rows that its target reads a second, times the demand
response time R_i         milliseconds of its stage, by :mod:`~.latency`
delay d(u, v)             the round trip between the hosts: a shuffle is fetched, not sent
cost C_i, resources       1 for each replica, as in section 6.4
t_sync, r(u, DS), t_s     what a move adds to a batch; speed of loading; a first state's cost
========================  ====================================================================

The source is an operator of its own that nobody steers. It has the time that a batch spends outside
stateful tasks (planning, reading, stateless stages, commit), and a node of its own. Its tasks run
on any executor, so by equation 3 its delay to u is the largest of any executor's to u. The response
time of the whole is then what a batch takes from trigger to commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from elastream.control.analyse import demand
from elastream.control.observation import Executor
from elastream.control.replication.graph import (
    OperatorGraph,
    OperatorLoad,
    operator_loads,
    operator_name,
)
from elastream.control.replication.latency import Points, latency_of
from elastream.control.replication.policy import ReplicationPolicy
from elastream.control.smoothing import SmoothedLoad
from elastream.model.replication.latency import Polynomial
from elastream.model.replication.problem import (
    Bounds,
    Datastore,
    Deployment,
    Links,
    Node,
    Operator,
    ReplicationProblem,
    Stream,
    Weights,
)

__all__ = ["SOURCE", "Observed", "problem_of"]

SOURCE: Final = "source"
"""Name of the operator, and of the node, that stand for everything before the state."""


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a replication problem is made of."""

    load: SmoothedLoad
    executors: tuple[Executor, ...]
    graph: OperatorGraph
    points: Points
    outside_ms: float | None
    """What a batch takes besides its stateful stages; ``None`` while that is not known."""
    round_trips_ms: Mapping[tuple[str, str], float]
    """Between hosts; a pair that is missing counts as 0."""


def problem_of(
    seen: Observed, policy: ReplicationPolicy, *, weights: Weights | None = None
) -> ReplicationProblem | None:
    """Return the problem of this moment; ``None`` while too little is known."""
    loads = operator_loads(seen.load, seen.executors)
    interval_ms = seen.load.interval_ms
    if loads is None or interval_ms is None or seen.outside_ms is None:
        return None
    wanted = demand(seen.load, policy.catch_up_s)
    cores = fmean(executor.cores for executor in seen.executors)
    operators = [_source(seen.outside_ms)]
    for each in loads:
        latency = latency_of(
            each, seen.points, policy.latency, interval_ms=interval_ms, demand=wanted, cores=cores
        )
        operators.append(
            Operator(
                name=operator_name(each.operator),
                latency=latency,
                state_bytes=round(each.state_bytes),
                max_replicas=_most_replicas(each, len(seen.executors), policy),
                nodes=tuple(executor.id for executor in seen.executors),
            )
        )
    replicas = len(loads) * len(seen.executors)
    places = len(seen.executors) + 1
    return ReplicationProblem(
        operators=tuple(operators),
        streams=tuple(_streams(loads, seen.graph, wanted)),
        nodes=tuple(_nodes(seen.executors, len(loads), cores, policy)),
        links=_links(seen),
        datastore=Datastore((0,) * places, (policy.load_bytes_per_s,) * places),
        sync_ms=policy.sync_ms,
        bounds=Bounds(policy.response_ms, policy.cost or replicas, policy.downtime_ms),
        weights=weights or policy.weights,
        current=_current(loads),
        restricted=policy.restricted,
        downtime=policy.downtime,
        distinct=True,
    )


def _source(outside_ms: float) -> Operator:
    latency = Polynomial((outside_ms,))
    return Operator(SOURCE, latency, cost=0, resources=0, nodes=(SOURCE,))


def _most_replicas(load: OperatorLoad, executors: int, policy: ReplicationPolicy) -> int:
    """Return how many there may be; those that are there already are allowed."""
    return max(min(policy.max_replicas, len(load.tasks), executors), len(load.replicas))


def _streams(
    loads: tuple[OperatorLoad, ...], graph: OperatorGraph, wanted: float
) -> Iterator[Stream]:
    """Yield what each operator reads; where several feed it, they are taken to send alike."""
    known = {each.operator for each in loads}
    for each in loads:
        above = [one for one in graph.sources_of(each.operator) if one in known]
        names = [operator_name(one) for one in above] or [SOURCE]
        for name in names:
            rate = each.rows_per_s * wanted / len(names)
            yield Stream(name, operator_name(each.operator), rate)


def _nodes(
    executors: tuple[Executor, ...], operators: int, cores: float, policy: ReplicationPolicy
) -> Iterator[Node]:
    yield Node(SOURCE, resources=0)
    for executor in executors:
        yield Node(
            executor.id,
            resources=policy.replicas_an_executor or operators,
            speedup=executor.cores / cores,
            spawn_ms=0 if executor.warm else policy.cold_ms,
        )


def _links(seen: Observed) -> Links:
    hosts = [executor.host for executor in seen.executors]

    def apart_ms(one: str, other: str) -> float:
        return seen.round_trips_ms.get((one, other), 0.0)

    between = [[apart_ms(one, other) for other in hosts] for one in hosts]
    from_source = [max(row[v] for row in between) for v in range(len(hosts))]
    rows = [[0.0, *from_source]]
    rows += [[from_source[u], *between[u]] for u in range(len(hosts))]
    free = ((0.0,) * len(rows),) * len(rows)
    return Links(tuple(map(tuple, rows)), free)


def _current(loads: tuple[OperatorLoad, ...]) -> Deployment:
    return {SOURCE: (SOURCE,)} | {operator_name(each.operator): each.replicas for each in loads}
