"""Interchangeable nodes: placements that differ only in the names of nodes.

Two nodes are interchangeable if swapping them changes nothing: same resources, slots, speed, times
and price, same delays and costs of links, same operators that may run or do run there. Of all
placements that differ by such swaps one is enough: the one that uses the nodes of a class in their
order, operator by operator. On a cluster with equal delays that reduces n^5 placements to a
handful.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner.configurations import Floats
from elastream.replication.planner.instance import Instance


def interchangeable(problem: ReplicationProblem) -> list[list[int]]:
    """Return the classes of interchangeable nodes that have more than one member."""
    delay = np.array(problem.links.delay_ms, dtype=float)
    cost = np.array(problem.links.cost, dtype=float)
    links = np.concatenate([np.sort(matrix) for matrix in (delay, cost, delay.T, cost.T)], axis=1)
    marks = [(row.tobytes(), *own) for row, own in zip(links, _marks(problem), strict=True)]
    classes: list[list[int]] = []
    for u, mark in enumerate(marks):
        for members in classes:
            v = members[0]
            if marks[v] == mark and _swappable(delay, u, v) and _swappable(cost, u, v):
                members.append(u)
                break
        else:
            classes.append([u])
    return [members for members in classes if len(members) > 1]


def consecutive_members(classes: list[list[int]]) -> list[tuple[int, int]]:
    """Return pairs of nodes of which the second may be used only if the first is."""
    return [pair for members in classes for pair in pairwise(members)]


def without_mirror_images(instance: Instance, classes: list[list[int]]) -> Instance:
    """Return the instance without configurations on nodes that can never be next in order."""
    reached = 0
    domains = []
    for domain in instance.domains:
        reached += int(domain.size.max())
        late = [node for members in classes for node in members[reached:]]
        domains.append(domain.where(np.all(domain.count[:, late] == 0, axis=1)))
    return replace(instance, domains=tuple(domains))


def _marks(problem: ReplicationProblem) -> Iterator[tuple[object, ...]]:
    """Yield the properties of each node other than its links."""
    allowed = [set(problem.allowed_nodes(operator)) for operator in problem.operators]
    current = [Counter((problem.current or {}).get(o.name, ())) for o in problem.operators]
    swap = problem.local_bytes_per_s or [None] * len(problem.nodes)
    for u, node in enumerate(problem.nodes):
        yield (
            *(node.resources, node.slots, node.speedup, node.spawn_ms, node.price, swap[u]),
            *(problem.datastore.delay_ms[u], problem.datastore.bytes_per_s[u]),
            tuple(node.name in names for names in allowed),
            tuple(replicas[node.name] for replicas in current),
        )


def _swappable(matrix: Floats, u: int, v: int) -> bool:
    order = np.arange(len(matrix))
    order[[u, v]] = v, u
    return bool((matrix == matrix[np.ix_(order, order)]).all())
