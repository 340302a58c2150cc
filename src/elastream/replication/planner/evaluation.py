"""Evaluate a deployment: the metrics of paper 004, section 4.2, equation by equation.

One pure function in plain Python. No solver uses it to decide, and it shares no code with the
solvers, so it can check them all.

Our readings: the traffic of a stream is shared evenly among the pairs of replicas (equation 4), so
its cost is its rate times the mean cost of the pairs; isolated operators and every sink count for
the critical path (equation 5). Our extension: a node that holds a replica of any operator adds its
price to the cost, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import product
from math import inf

from elastream.replication.model.plan import Evaluation
from elastream.replication.model.problem import Deployment, Operator, ReplicationProblem
from elastream.replication.planner.downtime import downtime_ms

TOLERANCE = 1e-9
"""Relative tolerance of bounds and capacities, for rounding errors of sums."""


def evaluate(problem: ReplicationProblem, deployment: Deployment) -> Evaluation:
    """Return the metrics of ``deployment`` and every rule of ``problem`` that it breaks."""
    faults = list(placement_faults(problem, deployment))
    latencies = {o.name: _latency_ms(problem, o, deployment[o.name]) for o in problem.operators}
    faults += [f"operator {name} is saturated" for name, ms in latencies.items() if ms is None]
    response_ms = _response_ms(problem, deployment, latencies)
    cost = _cost(problem, deployment)
    down_ms = downtime_ms(problem, deployment)
    bounds, weights = problem.bounds, problem.scaled_weights
    for name, value in (
        ("response_ms", response_ms),
        ("cost", cost),
        ("downtime_ms", down_ms),
    ):
        bound = getattr(bounds, name)
        if value is not None and value > bound * (1 + TOLERANCE):
            faults.append(f"{name} is {value:g}, above the bound {bound:g}")
    if response_ms is None:
        return Evaluation(None, None, cost, down_ms, tuple(faults))
    objective = (
        weights.response * response_ms / bounds.response_ms
        + weights.cost * cost / bounds.cost
        + weights.downtime * down_ms / bounds.downtime_ms
    )
    return Evaluation(objective, response_ms, cost, down_ms, tuple(faults))


def placement_faults(problem: ReplicationProblem, deployment: Deployment) -> Iterator[str]:
    """Yield every rule that the deployment breaks, its bounds aside."""
    taken = dict.fromkeys((node.name for node in problem.nodes), 0.0)
    busy = dict(taken)
    for operator in problem.operators:
        name, replicas = operator.name, deployment[operator.name]
        if not 1 <= len(replicas) <= operator.max_replicas:
            yield f"operator {name} has {len(replicas)} replicas"
        allowed = problem.allowed_nodes(operator)
        yield from (f"operator {name} may not run on {u}" for u in replicas if u not in allowed)
        if problem.restricted and problem.current is not None:
            old, new = Counter(problem.current[name]), Counter(replicas)
            if (new - old).total() > 1 or (old - new).total() > 1:
                yield f"operator {name} changes by more than one replica"
        if problem.distinct and len(set(replicas)) < len(replicas):
            yield f"operator {name} has two replicas on one node"
        for node in replicas:
            taken[node] += operator.resources
            busy[node] += operator.busy_by(len(replicas))
    for place in problem.nodes:
        if taken[place.name] > place.resources * (1 + TOLERANCE):
            yield f"node {place.name} has {place.resources:g} resources, not {taken[place.name]:g}"
        if busy[place.name] > place.slots * (1 + TOLERANCE):
            yield f"node {place.name} has {place.slots:g} slots, not {busy[place.name]:.3g}"
    for batch in problem.batches:
        share = sum(stage_share(problem, name, deployment[name]) for name in batch.operators)
        if share > batch.most * (1 + TOLERANCE):
            stages = ", ".join(batch.operators)
            yield f"batches of {stages} are busy {share:.3g}, above {batch.most:g}"


def stage_share(problem: ReplicationProblem, name: str, replicas: tuple[str, ...]) -> float:
    """Return what an operator's fullest replica keeps busy, per slot of the smallest node."""
    operator = next(each for each in problem.operators if each.name == name)
    slots = min(node.slots for node in problem.nodes if node.name in replicas)
    busy = operator.busy_by(len(replicas))
    if not busy:
        return 0.0
    return float(busy / slots) if slots else inf


def _latency_ms(
    problem: ReplicationProblem, operator: Operator, replicas: tuple[str, ...]
) -> float | None:
    """Return equation 1: the latency of the slowest replica."""
    rate = problem.input_rates[problem.operators.index(operator)]
    latency = operator.latency.latency_ms(rate / len(replicas))
    if latency is None:
        return None
    speedups = {node.name: node.speedup for node in problem.nodes}
    return max(latency / speedups[node] for node in replicas)


def _response_ms(
    problem: ReplicationProblem, deployment: Deployment, latencies: dict[str, float | None]
) -> float | None:
    """Return equation 5 by the longest path to each operator; equation 3 gives the delays."""
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    arrival: dict[str, float] = {}
    sources: dict[str, list[str]] = {operator.name: [] for operator in problem.operators}
    for stream in problem.streams:
        sources[stream.target].append(stream.source)
    for name in TopologicalSorter(sources).static_order():
        latency = latencies[name]
        if latency is None:
            return None
        paths_ms = [0.0]
        for source in sources[name]:
            pairs = product(deployment[source], deployment[name])
            delay = max(problem.links.delay_ms[number[u]][number[v]] for u, v in pairs)
            paths_ms.append(arrival[source] + delay)
        arrival[name] = max(paths_ms) + latency
    return max(arrival.values())


def _cost(problem: ReplicationProblem, deployment: Deployment) -> float:
    """Return equation 8: replicas by equation 2, streams by equation 4, and the rent."""
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    total = _rent(problem, deployment)
    for operator in problem.operators:
        total += len(deployment[operator.name]) * operator.cost * operator.resources
    for stream in problem.streams:
        pairs = list(product(deployment[stream.source], deployment[stream.target]))
        costs = [problem.links.cost[number[u]][number[v]] for u, v in pairs]
        total += stream.rate * sum(costs) / len(pairs)
    return total


def _rent(problem: ReplicationProblem, deployment: Deployment) -> float:
    """Return the prices of the nodes that hold any replica."""
    used = {node for operator in problem.operators for node in deployment[operator.name]}
    return float(sum(node.price for node in problem.nodes if node.name in used))
