"""All deployments of one operator, as arrays (paper 004, section 4.1).

A configuration is a multiset of at most k of the operator's nodes, or a set if nodes must be
distinct. Configurations that can never be part of a valid deployment are left out at once:
saturated sizes, more than a node can hold, a downtime above the bound, and in the restricted
problem (rEDRP, section 7.2) everything further than one replica from the current configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from math import comb

import numpy as np
from numpy.typing import NDArray

from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
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
    use: Floats
    """What one replica takes of its node, a column for each kind of room; 0 once it is booked."""
    busy: Floats
    """What the fullest replica keeps busy, per slot of the smallest node."""
    downtime_ms: Floats
    rent: Floats
    """Share of the prices of its nodes, proportional to the room taken of the last kind: never
    more than the price."""
    least: Floats
    """Lower bound on the objective of a deployment with it, without downtime, as far as is
    known."""

    def __len__(self) -> int:
        return len(self.size)

    def where(self, chosen: NDArray[np.bool_] | Ints) -> Configurations:
        """Return the chosen rows."""
        return Configurations(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @property
    def taken(self) -> Floats:
        """What each takes of each kind of room of each node."""
        return np.asarray(self.use[:, :, None] * self.count[:, None, :])

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


def rooms(problem: ReplicationProblem) -> Floats:
    """Return the room of each node (equation 18), a row for each kind.

    The kinds are resources and, if operators keep any busy, slots.
    """
    kinds = [[node.resources for node in problem.nodes]]
    if any(operator.busy for operator in problem.operators):
        kinds.append([node.slots for node in problem.nodes])
    return np.array(kinds, dtype=float) * (1 + _TOLERANCE)


def configurations_of(problem: ReplicationProblem, operator: int) -> Configurations | Infeasible:
    """Return the configurations of an operator, or the reason why it has none."""
    spec = problem.operators[operator]
    rate = problem.input_rates[operator]
    most = _most_replicas(problem, operator)
    latencies = {size: spec.latency.latency_ms(rate / size) for size in range(1, most + 1)}
    base_ms = {size: ms for size, ms in latencies.items() if ms is not None}
    if not base_ms:
        change = ", the most within one change" if most < spec.max_replicas else ""
        by = f"{pluralize(most, 'replica')}{change if problem.restricted else ''}"
        return Infeasible(f"operator {spec.name} is saturated at {rate:g} tuples a second by {by}")
    capacity = rooms(problem)
    found = _arrays(problem, operator, _rows(problem, operator, base_ms, capacity[0]), base_ms)
    fits = np.all(found.taken <= capacity, axis=(1, 2))
    for batch in problem.batches:
        if spec.name in batch.operators:
            fits &= found.busy <= batch.most * (1 + _TOLERANCE)
    found = found.where(fits)
    if not len(found):
        need = f"{pluralize(min(base_ms), 'replica')} of {spec.resources:g} resources"
        if spec.busy:
            need = f"{spec.busy[0]:.3g} slots in {pluralize(spec.max_replicas, 'replica')}"
        why = "its nodes have no room for that"
        if problem.restricted:
            why = "no deployment within one replica of the current one gives it that"
        return Infeasible(f"operator {spec.name} needs {need} at least, and {why}")
    quick = found.downtime_ms <= problem.bounds.downtime_ms * (1 + _TOLERANCE)
    if not quick.any():
        return Infeasible(
            f"operator {spec.name} must change, which takes {found.downtime_ms.min():g} ms, and "
            f"the bound downtime_ms is {problem.bounds.downtime_ms:g}"
        )
    return found.where(quick)


def _most_replicas(problem: ReplicationProblem, operator: int) -> int:
    """Return the largest replica count to consider."""
    spec = problem.operators[operator]
    most = min(spec.max_replicas, MOST_CONFIGURATIONS)
    if problem.distinct:
        most = min(most, len(problem.allowed_nodes(spec)))
    if problem.restricted and problem.current is not None:
        most = min(most, len(problem.current[spec.name]) + 1)
    return most


def _rows(
    problem: ReplicationProblem, operator: int, sizes: Collection[int], capacity: Floats
) -> list[Ints]:
    """Return the nodes of every configuration of these sizes, in blocks of equal size."""
    spec, distinct = problem.operators[operator], problem.distinct
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    allowed = [number[name] for name in problem.allowed_nodes(spec)]
    if problem.restricted and problem.current is not None:
        current = [number[name] for name in problem.current[spec.name]]
        near = _neighbours(current, allowed, spec.max_replicas)
        if distinct:
            near = (row for row in near if len(set(row)) == len(row))
        return [np.array([row], dtype=np.int64) for row in near if len(row) in sizes]
    if spec.resources > 0:
        allowed = [u for u in allowed if spec.resources <= capacity[u]]
        room = sum(int(capacity[u] / spec.resources + _TOLERANCE) for u in allowed)
        sizes = [size for size in sizes if size <= room]
    _refuse_too_many(operator, len(allowed), sizes, distinct=distinct)
    nodes = np.array(allowed, dtype=np.int64)
    return [nodes[_choices(len(allowed), size, distinct=distinct)] for size in sizes]


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


def _neighbours(current: list[int], allowed: list[int], most: int) -> Iterable[tuple[int, ...]]:
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


def _refuse_too_many(operator: int, nodes: int, sizes: Collection[int], *, distinct: bool) -> None:
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
    """Return the configurations with the given nodes."""
    spec = problem.operators[operator]
    rows = [each for each in rows if len(each)]
    size = np.array([each.shape[1] for each in rows for _ in each], dtype=np.int64)
    nodes = np.zeros((len(size), int(size.max(initial=1))), dtype=np.int64)
    count = np.zeros((len(size), len(problem.nodes)), dtype=np.int16)
    start = 0
    for each in rows:
        block = np.arange(start, start + len(each))
        nodes[block] = each[:, :1]
        nodes[block, : each.shape[1]] = each
        for slot in range(each.shape[1]):
            count[block, each[:, slot]] += 1
        start += len(each)
    speedup = np.array([node.speedup for node in problem.nodes], dtype=float)
    base = np.array([base_ms[each] for each in size.tolist()], dtype=float)
    capacity = rooms(problem)
    full = zip((node.price for node in problem.nodes), capacity[-1], strict=True)
    price_of_room = np.array([price / most if most else 0.0 for price, most in full])
    slots = np.array([node.slots for node in problem.nodes], dtype=float)[nodes].min(axis=1)
    used = np.array([spec.busy_by(each) for each in size.tolist()], dtype=float)
    busy = np.divide(used, slots, out=np.where(used > 0, np.inf, 0.0), where=slots > 0)
    use = np.column_stack([np.full(len(size), float(spec.resources)), used])[:, : len(capacity)]
    return Configurations(
        nodes,
        count,
        size,
        latency_ms=base / speedup[nodes].min(axis=1),
        price=size.astype(float) * (float(spec.cost) * float(spec.resources)),
        use=use,
        busy=busy,
        downtime_ms=downtimes_ms(problem, operator, nodes, count, size),
        rent=use[:, -1] * (count * price_of_room).sum(axis=1),
        least=np.zeros(len(size)),
    )
