"""Build a replication problem from observations (paper 004, sections 6.2 and 6.4).

========================  ====================================================================
paper                     here
========================  ====================================================================
operator i                a stateful operator of a query
its deployment U          the executors that hold a share of its partitions, each once
node u                    a live executor, or one that could be added (a newcomer)
its speed-up              its slots over the mean, times its measured speed
its resources (18)        slots, times measured speed, for what replicas of all queries keep busy;
                          and a number of operators, ``replicas_an_executor``
rate of a stream          rows per second read by its target, times the demand
response time R_i         milliseconds of its stage, by :mod:`~.response`
delay d(u, v)             the round trip between the hosts: a shuffle is fetched, not sent
cost                      a price for each executor that holds any state, and for each replica
t_sync, r(u, DS), t_s     extra time of a batch with a move; loading speed; cost of a first state
========================  ====================================================================

What a replica keeps busy is the fullest share of an even spread, with the work outside stateful
tasks charged to replicas in proportion: it goes where executors are. The stages of a query run one
after another: streams without rows keep them in order where no other stream does, and together they
may be as busy as ``busiest`` and the trigger allow. A queue or a fitted line alone would not know
when a batch no longer ends before the next should begin.

The number of executors is part of the answer. Newcomers are nodes too, all alike, and an executor
without a replica costs nothing because it can be released.

Each query has a source: an operator of its own that is never moved, on a node of its own. Its
latency is the time that a batch of the query spends outside stateful tasks (planning, reading,
stateless stages, commit). Its tasks run on any executor, so by equation 3 its delay to u is the
largest delay from any executor to u. The source also includes the wait of a row for its batch: half
a trigger interval. If batches start as soon as the previous one ends, the wait is half a batch, and
every part of the query counts one and a half times. The overall response time is then the time from
arrival to result of a row of the slowest query, on average and without a backlog. A backlog raises
the demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from math import comb
from statistics import fmean
from typing import TYPE_CHECKING, Final

from elastream.core.application import Observed, Query
from elastream.core.usage import demand
from elastream.placement.even_spread import even_max_load
from elastream.replication.goal.experience import Experience
from elastream.replication.goal.operators import (
    OperatorLoad,
    operator_loads,
    operator_name,
    stateful_share,
)
from elastream.replication.goal.response import WAITS_HALF, Points, latency_of
from elastream.replication.model.latency import Polynomial
from elastream.replication.model.problem import (
    Batch,
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


SOURCE: Final = "source"
"""Name of the source node, and suffix of the source operators: everything before the first
state."""
_NEWCOMER: Final = "newcomer "
"""Prefix of the names of nodes that represent newcomers."""
_LEAST_USABLE: Final = 0.5
"""A trigger that leaves stages less than this share is not kept by adding executors."""
_MOST_NEWCOMERS: Final = 8
_MOST_DEPLOYMENTS: Final = 100_000
"""Per operator; above this only one replica at a time may change."""


@dataclass(frozen=True, slots=True)
class ProblemInputs:
    """The inputs of a replication problem other than the load."""

    points: Points
    outside_ms: Mapping[str, float]
    """Time that a batch of each query spends outside its stateful stages."""
    round_trips_ms: Mapping[tuple[str, str], float]
    """Between hosts; a missing pair counts as 0."""
    experience: Experience


def problem_of(
    observed: Observed,
    inputs: ProblemInputs,
    goal: ReplicationSettings,
    *,
    weights: Weights | None = None,
) -> ReplicationProblem | None:
    """Return the current problem, or ``None`` while too little is known."""
    loads = operator_loads(observed)
    if loads is None or not observed.executors:
        return None
    queries = {load.query for load in loads}
    intervals = {name: observed.queries[name].load.interval_ms for name in queries}
    if any(ms is None for ms in intervals.values()) or not queries <= inputs.outside_ms.keys():
        return None
    demands = {name: demand(observed.queries[name], goal.catch_up_s) for name in queries}
    slots = fmean(executor.slots for executor in observed.executors)
    nodes = list(_nodes(observed, inputs, goal, len(loads), slots))
    operators = [
        _source(observed.queries[name], inputs.outside_ms[name]) for name in sorted(queries)
    ]
    others = 1 / stateful_share(observed)
    operators += [
        _operator(load, observed, inputs, goal, nodes, demands, slots, others) for load in loads
    ]
    replicas = sum(operator.max_replicas for operator in operators)
    price = sum(node.price for node in nodes) + replicas * goal.replica_price
    return ReplicationProblem(
        operators=tuple(operators),
        streams=tuple(_streams(loads, observed, demands)),
        nodes=tuple(nodes),
        links=_links(observed, inputs, goal, len(nodes)),
        datastore=Datastore(
            (0,) * len(nodes), (inputs.experience.bytes_per_s(goal.load_bytes_per_s),) * len(nodes)
        ),
        sync_ms=inputs.experience.sync_ms(goal.sync_ms),
        bounds=Bounds(goal.response_ms, goal.cost or max(price, 1.0), goal.downtime_ms),
        weights=weights or goal.weights,
        current=_current(loads, operators),
        restricted=goal.restricted or _too_many(operators),
        downtime=goal.downtime,
        distinct=True,
        batches=tuple(
            Batch(
                tuple(load.name for load in loads if load.query == name),
                _usable_share(observed.queries[name], inputs, goal) * others / goal.busiest,
            )
            for name in sorted(queries)
        ),
    )


def _interval_ms(query: Query, outside_ms: float) -> float:
    """Return the time whose rows a batch reads: of a trigger that is not kept now, but can be."""
    interval_ms, trigger_ms = query.load.interval_ms or 0.0, query.trigger_ms or 0.0
    late = (query.load.batch_ms or 0.0) > trigger_ms
    can_keep = outside_ms < (1 - _LEAST_USABLE) * trigger_ms
    return min(interval_ms, trigger_ms) if late and can_keep else interval_ms


def _usable_share(query: Query, inputs: ProblemInputs, goal: ReplicationSettings) -> float:
    """Return the share of its time for which the stages of a query may work."""
    if not query.trigger_ms:
        return goal.busiest
    left = max(_LEAST_USABLE, 1 - inputs.outside_ms[query.name] / query.trigger_ms)
    return min(goal.busiest, left)


def is_newcomer(node: str) -> bool:
    """Return whether a node represents an executor that could be added."""
    return node.startswith(_NEWCOMER)


def _source(query: Query, outside_ms: float) -> Operator:
    name = f"{query.name}/{SOURCE}"
    ahead_ms = WAITS_HALF * (query.trigger_ms or 0.0)
    latency = Polynomial((outside_ms * _wait_factor(query) + ahead_ms,))
    return Operator(name, latency, cost=0, resources=0, nodes=(SOURCE,))


def _wait_factor(query: Query) -> float:
    """Return the weight of a part of a batch for a row, which may also wait for another batch."""
    return 1.0 if query.trigger_ms else 1.0 + WAITS_HALF


def _operator(
    load: OperatorLoad,
    observed: Observed,
    inputs: ProblemInputs,
    goal: ReplicationSettings,
    nodes: list[Node],
    demands: Mapping[str, float],
    slots: float,
    others: float,
) -> Operator:
    hosts = goal.hosts_of(load.query, load.operator)
    on = {executor.id: executor.host for executor in observed.executors}
    every = tuple(node.name for node in nodes if node.name != SOURCE)
    pinned = tuple(name for name in every if hosts is not None and on.get(name) in hosts)
    allowed = pinned or every  # if none of its hosts is alive, any executor will do
    most = min(goal.most_replicas(load.query, load.operator), len(load.tasks), len(allowed))
    query = observed.queries[load.query]
    works = [task.work for task in load.tasks.values()]
    latency = latency_of(
        load,
        inputs.points,
        goal.latency,
        interval_ms=_interval_ms(query, inputs.outside_ms[query.name]),
        demand=demands[load.query],
        slots=slots,
    )
    if isinstance(latency, Polynomial):
        latency = Polynomial(tuple(part * _wait_factor(query) for part in latency.coefficients))
    return Operator(
        name=load.name,
        latency=latency,
        state_bytes=round(load.state_bytes),
        cost=goal.replica_price,
        max_replicas=most,
        nodes=allowed,
        busy=tuple(
            even_max_load(works, replicas, contiguous=False) * demands[load.query] * others
            for replicas in range(1, most + 1)
        ),
    )


def _streams(
    loads: tuple[OperatorLoad, ...], observed: Observed, demands: Mapping[str, float]
) -> Iterator[Stream]:
    """Yield the input streams of each operator; several sources are assumed to send equally."""
    known = {load.key for load in loads}
    for load in loads:
        graph = observed.queries[load.query].graph
        sources = [one for one in graph.sources_of(load.operator) if (load.query, one) in known]
        names = [operator_name(load.query, one) for one in sources] or [f"{load.query}/{SOURCE}"]
        for name in names:
            rate = load.rows_per_s * demands[load.query] / len(names)
            yield Stream(name, load.name, rate)
    for name in demands:
        feeds = observed.queries[name].graph.sources_of
        before = {one: feeds(one) for query, one in sorted(known) if query == name}
        stages = [one for one in TopologicalSorter(before).static_order() if (name, one) in known]
        for one, next_one in pairwise(stages):
            if one not in before[next_one]:
                yield Stream(operator_name(name, one), operator_name(name, next_one), 0)


def _nodes(
    observed: Observed,
    inputs: ProblemInputs,
    goal: ReplicationSettings,
    operators: int,
    slots: float,
) -> Iterator[Node]:
    yield Node(SOURCE, resources=0)
    room = goal.replicas_an_executor or operators
    speeds = inputs.experience.speeds
    mean = fmean([speeds.get(executor.id, 1.0) for executor in observed.executors])
    cold_ms = inputs.experience.cold_ms(goal.cold_ms)
    for executor in observed.executors:
        yield Node(
            executor.id,
            resources=room,
            slots=goal.busiest * executor.slots * speeds.get(executor.id, 1.0) / mean,
            speedup=executor.slots / slots * speeds.get(executor.id, 1.0) / mean,
            spawn_ms=0 if executor.warm else cold_ms,
            price=goal.price_of(executor.host),
        )
    missing = observed.bounds.most - len(observed.executors)
    for number in range(min(max(0, missing), operators * goal.most_of_all, _MOST_NEWCOMERS)):
        yield Node(
            f"{_NEWCOMER}{number}",
            resources=room,
            slots=goal.busiest * slots,
            spawn_ms=cold_ms,
            price=goal.price_of(None),
        )


def _links(
    observed: Observed, inputs: ProblemInputs, goal: ReplicationSettings, nodes: int
) -> Links:
    hosts: list[str | None] = [executor.host for executor in observed.executors]
    between = [ms for (one, other), ms in inputs.round_trips_ms.items() if one != other]
    usual_ms = fmean(between) if between else 0.0
    hosts += [None] * (nodes - 1 - len(hosts))

    def delay_ms(one: str | None, other: str | None) -> float:
        if one is None or other is None:
            return usual_ms
        return inputs.round_trips_ms.get((one, other), 0.0)

    delays = [
        [0.0 if u == v else delay_ms(one, other) for v, other in enumerate(hosts)]
        for u, one in enumerate(hosts)
    ]
    alive = range(len(observed.executors))
    from_source = [max(delays[u][v] for u in alive) for v in range(len(hosts))]
    rows = [[0.0, *from_source]]
    rows += [[from_source[u], *delays[u]] for u in range(len(hosts))]
    prices = [[goal.link_price if ms > 0 else 0.0 for ms in row] for row in rows]
    return Links(tuple(map(tuple, rows)), tuple(map(tuple, prices)))


def _current(loads: tuple[OperatorLoad, ...], operators: list[Operator]) -> Deployment:
    """Return where operators are, with what breaks a rule already moved.

    That is a replica on a node that is not allowed, or one too many: those with least state go.
    """
    queries = {load.query for load in loads}
    known = {operator.name: operator for operator in operators}
    deployment: dict[str, tuple[str, ...]] = {
        f"{name}/{SOURCE}": (SOURCE,) for name in sorted(queries)
    }
    for load in loads:
        allowed, most = known[load.name].nodes or (), known[load.name].max_replicas
        replicas = [executor for executor in load.replicas if executor in allowed]
        largest = sorted(replicas, key=lambda each: -load.state_on[each])[:most]
        kept = tuple(each for each in replicas if each in largest)
        deployment[load.name] = kept or allowed[:1]
    return deployment


def _too_many(operators: list[Operator]) -> bool:
    """Return whether an operator has too many deployments to compare them all."""
    return any(
        sum(comb(len(each.nodes or ()), size) for size in range(1, each.max_replicas + 1))
        > _MOST_DEPLOYMENTS
        for each in operators
    )
