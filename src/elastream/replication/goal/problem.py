"""From what was observed to a replication problem (paper 004, sections 6.2 and 6.4).

========================  ====================================================================
paper                     here
========================  ====================================================================
operator i                a stateful operator of a query
its deployment U          the executors that hold a share of its partitions, each once
node u                    an executor that is alive, or one that might come
its speed-up              its cores over the mean, times its measured speed
rate of a stream          rows that its target reads a second, times the demand
response time R_i         milliseconds of its stage, by :mod:`~.latency`
delay d(u, v)             the round trip between the hosts: a shuffle is fetched, not sent
cost                      a price for each executor that holds any state, and for each replica
t_sync, r(u, DS), t_s     what a move adds to a batch; speed of loading; a first state's cost
========================  ====================================================================

The number of executors is part of the answer: executors that might come are nodes too, all alike,
and an executor that holds no replica costs nothing, for it can be given back.

Each query has a source, an operator of its own that nobody steers. It has the time that a batch of
the query spends outside stateful tasks (planning, reading, stateless stages, commit), and a node of
its own. Its tasks run on any executor, so by equation 3 its delay to u is the largest of any
executor's to u. The source also has the wait of a row for its batch: half a trigger interval. Where
batches begin as soon as the one before has ended, that is half a batch, and every part of the
query counts one and a half times. The response time of the whole is then what a row of the slowest
query takes from its arrival to its result, in the mean and without a backlog; a backlog makes for
more demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import TYPE_CHECKING, Final

from elastream.core.application import Observed, Query
from elastream.core.usage import demand
from elastream.replication.goal.experience import Experience
from elastream.replication.goal.latency import Points, latency_of
from elastream.replication.goal.operators import OperatorLoad, operator_loads, operator_name
from elastream.replication.goal.response import WAITS_HALF
from elastream.replication.model.latency import Polynomial
from elastream.replication.model.problem import (
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

if TYPE_CHECKING:
    from elastream.replication.goal.settings import ReplicationSettings

__all__ = ["SOURCE", "ProblemInputs", "is_newcomer", "problem_of"]

SOURCE: Final = "source"
"""Name of the node, and the end of the operators' names, that stand for all before the state."""
_NEWCOMER: Final = "newcomer "
"""How nodes are named that stand for executors which might come."""
_MOST_NEWCOMERS: Final = 8
_MOST_DEPLOYMENTS: Final = 100_000
"""Of one operator; beyond that one replica a time may change."""


@dataclass(frozen=True, slots=True)
class ProblemInputs:
    """All that a replication problem is made of, besides the load."""

    points: Points
    outside_ms: Mapping[str, float]
    """What a batch of each query takes besides its stateful stages."""
    round_trips_ms: Mapping[tuple[str, str], float]
    """Between hosts; a pair that is missing counts as 0."""
    experience: Experience


def problem_of(
    observed: Observed,
    seen: ProblemInputs,
    goal: ReplicationSettings,
    *,
    weights: Weights | None = None,
) -> ReplicationProblem | None:
    """Return the problem of this moment; ``None`` while too little is known."""
    loads = operator_loads(observed)
    if loads is None or not observed.executors:
        return None
    queries = {load.query for load in loads}
    intervals = {name: observed.queries[name].load.interval_ms for name in queries}
    if any(ms is None for ms in intervals.values()) or not queries <= seen.outside_ms.keys():
        return None
    wanted = {name: demand(observed.queries[name], goal.catch_up_s) for name in queries}
    cores = fmean(executor.cores for executor in observed.executors)
    nodes = list(_nodes(observed, seen, goal, len(loads), cores))
    operators = [_source(observed.queries[name], seen.outside_ms[name]) for name in sorted(queries)]
    operators += [_operator(load, observed, seen, goal, nodes, wanted, cores) for load in loads]
    replicas = sum(operator.max_replicas for operator in operators)
    price = sum(node.price for node in nodes) + replicas * goal.replica_price
    return ReplicationProblem(
        operators=tuple(operators),
        streams=tuple(_streams(loads, observed, wanted)),
        nodes=tuple(nodes),
        links=_links(observed, seen, goal, len(nodes)),
        datastore=Datastore(
            (0,) * len(nodes), (seen.experience.bytes_per_s(goal.load_bytes_per_s),) * len(nodes)
        ),
        sync_ms=seen.experience.sync_ms(goal.sync_ms),
        bounds=Bounds(goal.response_ms, goal.cost or max(price, 1.0), goal.downtime_ms),
        weights=weights or goal.weights,
        current=_current(loads, operators),
        restricted=goal.restricted or _too_many(operators),
        downtime=goal.downtime,
        distinct=True,
    )


def is_newcomer(node: str) -> bool:
    """Return whether a node stands for an executor which might come."""
    return node.startswith(_NEWCOMER)


def _source(query: Query, outside_ms: float) -> Operator:
    name = f"{query.name}/{SOURCE}"
    ahead_ms = WAITS_HALF * (query.trigger_ms or 0.0)
    latency = Polynomial((outside_ms * _waited(query) + ahead_ms,))
    return Operator(name, latency, cost=0, resources=0, nodes=(SOURCE,))


def _waited(query: Query) -> float:
    """Return how often a part of a batch counts for a row, which may wait for the one before."""
    return 1.0 if query.trigger_ms else 1.0 + WAITS_HALF


def _operator(
    load: OperatorLoad,
    observed: Observed,
    seen: ProblemInputs,
    goal: ReplicationSettings,
    nodes: list[Node],
    wanted: Mapping[str, float],
    cores: float,
) -> Operator:
    hosts = goal.hosts_of(load.query, load.operator)
    on = {executor.id: executor.host for executor in observed.executors}
    every = tuple(node.name for node in nodes if node.name != SOURCE)
    pinned = tuple(name for name in every if hosts is not None and on.get(name) in hosts)
    allowed = pinned or every  # where none of its hosts is alive it has to be somewhere
    there = sum(executor in allowed for executor in load.replicas)
    most = goal.most_replicas(load.query, load.operator)
    query = observed.queries[load.query]
    latency = latency_of(
        load,
        seen.points,
        goal.latency,
        interval_ms=query.load.interval_ms or 0.0,
        demand=wanted[load.query],
        cores=cores,
    )
    if isinstance(latency, Polynomial):
        latency = Polynomial(tuple(part * _waited(query) for part in latency.coefficients))
    return Operator(
        name=load.name,
        latency=latency,
        state_bytes=round(load.state_bytes),
        cost=goal.replica_price,
        max_replicas=max(min(most, len(load.tasks), len(allowed)), there, 1),
        nodes=allowed,
    )


def _streams(
    loads: tuple[OperatorLoad, ...], observed: Observed, wanted: Mapping[str, float]
) -> Iterator[Stream]:
    """Yield what each operator reads; where several feed it, they are taken to send alike."""
    known = {load.key for load in loads}
    for load in loads:
        graph = observed.queries[load.query].graph
        above = [one for one in graph.sources_of(load.operator) if (load.query, one) in known]
        names = [operator_name(load.query, one) for one in above] or [f"{load.query}/{SOURCE}"]
        for name in names:
            rate = load.rows_per_s * wanted[load.query] / len(names)
            yield Stream(name, load.name, rate)


def _nodes(
    observed: Observed, seen: ProblemInputs, goal: ReplicationSettings, operators: int, cores: float
) -> Iterator[Node]:
    yield Node(SOURCE, resources=0)
    room = goal.replicas_an_executor or operators
    speeds = seen.experience.speeds
    mean = fmean([speeds.get(executor.id, 1.0) for executor in observed.executors])
    cold_ms = seen.experience.cold_ms(goal.cold_ms)
    for executor in observed.executors:
        yield Node(
            executor.id,
            resources=room,
            speedup=executor.cores / cores * speeds.get(executor.id, 1.0) / mean,
            spawn_ms=0 if executor.warm else cold_ms,
            price=goal.price_of(executor.host),
        )
    missing = observed.bounds.most - len(observed.executors)
    for number in range(min(max(0, missing), operators * goal.most_of_all, _MOST_NEWCOMERS)):
        yield Node(
            f"{_NEWCOMER}{number}", resources=room, spawn_ms=cold_ms, price=goal.price_of(None)
        )


def _links(observed: Observed, seen: ProblemInputs, goal: ReplicationSettings, nodes: int) -> Links:
    hosts: list[str | None] = [executor.host for executor in observed.executors]
    between = [ms for (one, other), ms in seen.round_trips_ms.items() if one != other]
    usual_ms = fmean(between) if between else 0.0
    hosts += [None] * (nodes - 1 - len(hosts))

    def apart_ms(one: str | None, other: str | None) -> float:
        if one is None or other is None:
            return usual_ms
        return seen.round_trips_ms.get((one, other), 0.0)

    delays = [
        [0.0 if u == v else apart_ms(one, other) for v, other in enumerate(hosts)]
        for u, one in enumerate(hosts)
    ]
    alive = range(len(observed.executors))
    from_source = [max(delays[u][v] for u in alive) for v in range(len(hosts))]
    rows = [[0.0, *from_source]]
    rows += [[from_source[u], *delays[u]] for u in range(len(hosts))]
    paid = [[goal.link_price if ms > 0 else 0.0 for ms in row] for row in rows]
    return Links(tuple(map(tuple, rows)), tuple(map(tuple, paid)))


def _current(loads: tuple[OperatorLoad, ...], operators: list[Operator]) -> Deployment:
    """Return where operators are; one that may not be there counts as where it has to go."""
    queries = {load.query for load in loads}
    allowed = {operator.name: operator.nodes or () for operator in operators}
    found: dict[str, tuple[str, ...]] = {f"{name}/{SOURCE}": (SOURCE,) for name in sorted(queries)}
    for load in loads:
        kept = tuple(executor for executor in load.replicas if executor in allowed[load.name])
        found[load.name] = kept or allowed[load.name][:1]
    return found


def _too_many(operators: list[Operator]) -> bool:
    """Whether an operator has too many deployments for all to be compared."""
    return any(
        sum(comb(len(each.nodes or ()), size) for size in range(1, each.max_replicas + 1))
        > _MOST_DEPLOYMENTS
        for each in operators
    )
