"""Interchangeable nodes: which placements are the same but for the names of nodes.

Two nodes are interchangeable where swapping them changes nothing: same resources, speed, times,
price, same delays and costs of links, same operators that may run or do run there. Of all
placements that differ by such swaps one is enough: the one in which the nodes of a class are taken
in their order, operator by operator. On a cluster where all delays are equal that is the difference
between n^5 placements and a handful.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from elastream.model.replication.problem import ReplicationProblem
from elastream.planners.replication.configurations import Floats
from elastream.planners.replication.instance import Instance

__all__ = ["consecutive_members", "without_mirror_images"]


def interchangeable(problem: ReplicationProblem) -> list[list[int]]:
    """Return the classes of interchangeable nodes that have more than one member."""
    marks = [_mark(problem, u) for u in range(len(problem.nodes))]
    delay, cost = np.array(problem.links.delay_ms), np.array(problem.links.cost)
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


def consecutive_members(problem: ReplicationProblem) -> list[tuple[int, int]]:
    """Return pairs of nodes of which the second is used only where the first is."""
    return [pair for members in interchangeable(problem) for pair in pairwise(members)]


def without_mirror_images(instance: Instance, problem: ReplicationProblem) -> Instance:
    """Return the instance without configurations on nodes that are never the next in order."""
    classes = interchangeable(problem)
    reached = 0
    domains = []
    for domain in instance.domains:
        reached += int(domain.size.max())
        late = [node for members in classes for node in members[reached:]]
        domains.append(domain.where(np.all(domain.count[:, late] == 0, axis=1)))
    return replace(instance, domains=tuple(domains))


def _mark(problem: ReplicationProblem, u: int) -> tuple[object, ...]:
    node, store = problem.nodes[u], problem.datastore
    swap = problem.local_bytes_per_s[u] if problem.local_bytes_per_s else None
    own = (node.resources, node.speedup, node.spawn_ms, node.price)
    stored = store.delay_ms[u], store.bytes_per_s[u]
    allowed = tuple(node.name in problem.allowed_nodes(operator) for operator in problem.operators)
    current: Sequence[int] = ()
    if problem.current is not None:
        current = [Counter(problem.current[o.name])[node.name] for o in problem.operators]
    return (*own, *stored, swap, allowed, tuple(current))


def _swappable(matrix: Floats, u: int, v: int) -> bool:
    order = np.arange(len(matrix))
    order[[u, v]] = v, u
    return bool((matrix == matrix[np.ix_(order, order)]).all())
