"""All deployments of one operator, as arrays (paper 004, section 4.1).

A configuration is a multiset of at most k of the operator's nodes, or a set if nodes must be
distinct. Configurations that can never be part of a valid deployment are left out at once:
saturated sizes, more than a node can hold, a downtime above the bound, and in the restricted
problem (rEDRP, section 7.2) everything further than one replica from the current configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import comb

import numpy as np
from numpy.typing import NDArray

from elastream.model.errors import ProblemError
from elastream.model.words import pluralize
from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner.downtime_array import downtimes_ms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CONFIGURATIONS = 400_000
"""An operator with more is rejected: the arrays would not fit in memory."""
_MOST_REPLICAS = 20_000_000
"""An operator is also rejected if its configurations have more replicas than this in total."""

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Configurations:
    """The configurations of one operator, one row each."""

    nodes: Ints
    """Node of each replica, ascending; missing replicas are padded with the first node."""
    count: NDArray[np.int16]
    """Replicas on each node, one column per node."""
    size: Ints
    latency_ms: Floats
    price: Floats
    """Cost of the replicas themselves."""
    downtime_ms: Floats
    rent: Floats
    """Share of the prices of its nodes, proportional to the resources used: never more than the
    price."""
    least: Floats
    """Lower bound on the objective of a deployment with it, without downtime, as far as is
    known."""

    def __len__(self) -> int:
        return len(self.size)

    def where(self, chosen: NDArray[np.bool_] | Ints) -> Configurations:
        """Return the chosen rows."""
        return Configurations(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def mean(self, of_node: Floats) -> Floats:
        """Return the mean over the replicas of ``of_node``, one entry or row per node."""
        total = of_node[self.nodes[:, 0]]
        for slot in range(1, self.nodes.shape[1]):
            more = np.flatnonzero(self.size > slot)
            total[more] += of_node[self.nodes[more, slot]]
        return np.asarray(total.T / self.size).T

    def worst(self, of_node: Floats) -> Floats:
        """Return the maximum over the replicas of ``of_node``, one entry or row per node."""
        largest = of_node[self.nodes[:, 0]]
        for slot in range(1, self.nodes.shape[1]):
            np.maximum(largest, of_node[self.nodes[:, slot]], out=largest)
        return largest

    def replicas(self, row: int) -> list[int]:
        """Return the nodes of one configuration, including repeated ones."""
        return np.repeat(np.arange(self.count.shape[1]), self.count[row]).tolist()


@dataclass(frozen=True, slots=True)
class Missing:
    """Why an operator has no configuration left."""

    reason: str


def configurations_of(problem: ReplicationProblem, operator: int) -> Configurations | Missing:
    """Return the configurations of an operator, or the reason why it has none."""
    spec = problem.operators[operator]
    rate = problem.input_rates[operator]
    base_ms: dict[int, float] = {}
    most = _most_replicas(problem, operator)
    for replicas in range(1, most + 1):
        latency = spec.latency.latency_ms(rate / replicas)
        if latency is not None:
            base_ms[replicas] = latency
    if not base_ms:
        by = pluralize(most, "replica")
        by += (
            ", the most within one change"
            if problem.restricted and most < spec.max_replicas
            else ""
        )
        return Missing(f"operator {spec.name} is saturated at {rate:g} tuples a second by {by}")
    return _with_room(problem, operator, base_ms)


def _most_replicas(problem: ReplicationProblem, operator: int) -> int:
    """Return the largest replica count to consider."""
    spec = problem.operators[operator]
    most = min(spec.max_replicas, MOST_CONFIGURATIONS)
    if problem.distinct:
        most = min(most, len(problem.allowed_nodes(spec)))
    if problem.restricted and problem.current is not None:
        most = min(most, len(problem.current[spec.name]) + 1)
    return most


def _with_room(
    problem: ReplicationProblem, operator: int, base_ms: dict[int, float]
) -> Configurations | Missing:
    spec = problem.operators[operator]
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    allowed = [number[name] for name in problem.allowed_nodes(spec)]
    capacity = np.array([node.resources for node in problem.nodes], dtype=float) * (1 + _TOLERANCE)
    if problem.restricted and problem.current is not None:
        current = [number[name] for name in problem.current[spec.name]]
        near = _neighbours(current, allowed, spec.max_replicas)
        chosen = [row for row in near if len(row) in base_ms]
        if problem.distinct:
            chosen = [row for row in chosen if len(set(row)) == len(row)]
        rows = [np.array([row], dtype=np.int64) for row in chosen]
    else:
        sizes = list(base_ms)
        if spec.resources > 0:
            allowed = [u for u in allowed if spec.resources <= capacity[u]]
            room = sum(int(capacity[u] / spec.resources + _TOLERANCE) for u in allowed)
            sizes = [size for size in sizes if size <= room]
        _refuse_too_many(operator, len(allowed), sizes, distinct=problem.distinct)
        number_of = np.array(allowed, dtype=np.int64)
        distinct = problem.distinct
        rows = [number_of[_choices(len(allowed), size, distinct=distinct)] for size in sizes]
    fitting = _arrays(problem, operator, rows, base_ms)
    fits = np.all(fitting.count * float(spec.resources) <= capacity, axis=1)
    if not fits.any():
        return Missing(_no_room(problem, operator, base_ms))
    fitting = fitting.where(fits)
    quick = fitting.downtime_ms <= problem.bounds.downtime_ms * (1 + _TOLERANCE)
    if not quick.any():
        least = fitting.downtime_ms.min()
        return Missing(
            f"operator {spec.name} must change, which takes {least:g} ms, and the bound "
            f"downtime_ms is {problem.bounds.downtime_ms:g}"
        )
    return fitting.where(quick)


def _choices(total: int, size: int, *, distinct: bool) -> Ints:
    """Return every way to choose ``size`` of ``total`` numbers, one ascending row each."""
    rows = np.zeros((1, 0), dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    for chosen in range(size):
        end = total - (size - chosen - 1) if distinct else total
        ways = np.maximum(end - first, 0)
        rows = np.repeat(rows, ways, axis=0)
        chosen_next = np.arange(len(rows)) + np.repeat(first - (ways.cumsum() - ways), ways)
        rows = np.column_stack([rows, chosen_next])
        first = chosen_next + 1 if distinct else chosen_next
    return rows


def _neighbours(current: list[int], allowed: list[int], most: int) -> Iterator[tuple[int, ...]]:
    """Yield ``current`` and every configuration with one replica added, removed or replaced."""
    seen = set()
    for removed in (None, *sorted(set(current))):
        for added in (None, *allowed):
            changed = Counter(current)
            if removed is not None:
                changed[removed] -= 1
            if added is not None:
                changed[added] += 1
            nodes = tuple(sorted(changed.elements()))
            if 1 <= len(nodes) <= most and nodes not in seen:
                seen.add(nodes)
                yield nodes


def _refuse_too_many(operator: int, nodes: int, sizes: list[int], *, distinct: bool) -> None:
    repeated = 0 if distinct else 1
    total = sum(comb(nodes + repeated * (size - 1), size) for size in sizes if nodes)
    if total > MOST_CONFIGURATIONS or total * max(sizes, default=0) > _MOST_REPLICAS:
        raise ProblemError(
            f"operators[{operator}].max_replicas",
            f"up to {max(sizes)} replicas on {pluralize(nodes, 'node')} can be placed in {total} "
            f"ways, too many to compare (above {MOST_CONFIGURATIONS} ways, or {_MOST_REPLICAS} "
            "replicas in all of them); allow fewer replicas or nodes, or set restricted",
        )


def _arrays(
    problem: ReplicationProblem, operator: int, rows: list[Ints], base_ms: dict[int, float]
) -> Configurations:
    """Return the configurations with the given nodes, in blocks of equal size."""
    spec = problem.operators[operator]
    rows = [each for each in rows if len(each)]
    size = np.repeat([each.shape[1] for each in rows], [len(each) for each in rows]).astype(
        np.int64
    )
    widest = int(size.max(initial=1))
    nodes = np.zeros((len(size), widest), dtype=np.int64)
    count = np.zeros((len(size), len(problem.nodes)), dtype=np.int16)
    start = 0
    for each in rows:
        block = slice(start, start + len(each))
        nodes[block] = each[:, :1]
        nodes[block, : each.shape[1]] = each
        for slot in range(each.shape[1]):
            count[np.arange(block.start, block.stop), each[:, slot]] += 1
        start = block.stop
    speedup = np.array([node.speedup for node in problem.nodes], dtype=float)
    base = np.array([base_ms[each] for each in size.tolist()], dtype=float)
    price = size.astype(float) * (float(spec.cost) * float(spec.resources))
    down_ms = downtimes_ms(problem, operator, nodes, count, size)
    known = np.zeros(len(size))
    rent = float(spec.resources) * (count * _price_of_a_resource(problem)).sum(axis=1)
    return Configurations(
        nodes, count, size, base / speedup[nodes].min(axis=1), price, down_ms, rent, known
    )


def _price_of_a_resource(problem: ReplicationProblem) -> Floats:
    """Return the price of one unit of each node's resources when all of them are used."""
    full = [(node.price, node.resources * (1 + _TOLERANCE)) for node in problem.nodes]
    prices = [price / resources if resources else 0.0 for price, resources in full]
    return np.array(prices, dtype=float)


def _no_room(problem: ReplicationProblem, operator: int, base_ms: dict[int, float]) -> str:
    spec, least = problem.operators[operator], min(base_ms)
    need = f"{pluralize(least, 'replica')} of {spec.resources:g} resources"
    if problem.restricted:
        return (
            f"operator {spec.name} needs {need} at least, and no deployment within one replica "
            "of the current one gives it that"
        )
    return f"operator {spec.name} needs {need} at least, and its nodes have no room for that"
