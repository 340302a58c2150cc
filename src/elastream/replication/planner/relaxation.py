"""Lower bounds from one replica per operator: they make many nodes and replicas tractable.

Draw one replica of every operator at random, uniformly and independently. The expected delay
between the drawn replicas of two operators is at most the delay of their stream (a maximum), and
the expected link cost is exactly the stream's (a mean). So the best choice of single nodes, each
charged with the cheapest configuration that contains it, is a lower bound on every deployment: n
values per operator instead of n^k.

Two functions bound a deployment with each single configuration from below; configurations above the
best known deployment are dropped for good. ``relaxed_bounds`` keeps the configurations of one
operator and relaxes all others. ``drawn_bounds`` draws a replica of that operator too: it finds the
minimum over the others for each single node, and a configuration gets the mean over its replicas.
The mean of the minima is at most the minimum of the means, so the first bound is tighter and the
second is almost free. In both, two operators joined by a stream may not share a node that cannot
hold both. The rent of the configuration's own nodes, and of other nodes that must be used, is
added.

Cost, for each operator in turn: ``relaxed_bounds`` builds a table of m x n entries per stream of
the kept operator, m x n x n if its neighbours are joined by a stream; ``drawn_bounds`` n x n
entries per stream, n x n x n in a triangle, and m x k for the means.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from elastream.replication.planner.configurations import Floats
from elastream.replication.planner.elimination import (
    Effort,
    Factor,
    Memo,
    elimination_order,
    least_over_others,
)
from elastream.replication.planner.forms import Form
from elastream.replication.planner.instance import Instance
from elastream.replication.planner.rent import Rent


def drawn_bounds(instance: Instance, forms: list[Form], effort: Effort) -> list[Floats]:
    """Return what ``relaxed_bounds`` returns, less tight and almost for free."""
    sizes = [instance.nodes] * len(instance.domains)

    def bound(relaxed: _Relaxed, kept: int, order: list[int]) -> Floats:
        others = relaxed.others(kept)
        least = least_over_others(others, order, sizes, kept, relaxed.memo, effort)
        domain = instance.domains[kept]
        return relaxed.form.unary(kept, domain) + domain.mean(least)

    return _with_rent(instance, forms, bound)


def relaxed_bounds(instance: Instance, forms: list[Form], effort: Effort) -> list[Floats]:
    """Return for each operator lower bounds: one row per form, one column per configuration."""
    own = [_OwnTables(instance, kept) for kept in range(len(instance.domains))]

    def bound(relaxed: _Relaxed, kept: int, order: list[int]) -> Floats:
        sizes = [instance.nodes] * len(instance.domains)
        sizes[kept] = len(instance.domains[kept])
        factors = relaxed.factors(own[kept])
        return least_over_others(factors, order, sizes, kept, relaxed.memo, effort)

    return _with_rent(instance, forms, bound)


def _with_rent(
    instance: Instance, forms: list[Form], bound: Callable[[_Relaxed, int, list[int]], Floats]
) -> list[Floats]:
    relaxed = [_Relaxed(instance, form) for form in forms]
    scopes = [(flow.source, flow.target) for flow in instance.flows]
    nodes = [instance.nodes] * len(instance.domains)
    rent, money = Rent(instance), np.array([form.on_top for form in forms])
    bounds = []
    for kept in range(len(instance.domains)):
        order = elimination_order(scopes, nodes, kept)
        bounds.append(np.array([bound(each, kept, order) for each in relaxed]))
        if rent.due:
            bounds[kept] += np.outer(money, _least_rent(instance, rent, kept))
    return bounds


def _least_rent(instance: Instance, rent: Rent, kept: int) -> Floats:
    """Return a lower bound on the rent of a deployment with each configuration of one operator."""
    domain = instance.domains[kept]
    others = rent.rest(i for i in range(len(instance.domains)) if i != kept)
    return rent.least(others, domain.count > 0, domain.taken)


class _Relaxed:
    """One form with every operator on a single node."""

    def __init__(self, instance: Instance, form: Form) -> None:
        self.form = form
        self._singles = [Factor((i,), u) for i, u in enumerate(_single_nodes(instance, form))]
        self._links = [
            Factor((flow.source, flow.target), _node_table(instance, form, e))
            for e, flow in enumerate(instance.flows)
        ]
        self.memo: Memo = {}

    def others(self, kept: int) -> list[Factor]:
        """Return the factors without the operator's own."""
        return [single for i, single in enumerate(self._singles) if i != kept] + self._links

    def factors(self, own: _OwnTables) -> list[Factor]:
        """Return the factors with the configurations of one operator in place of its nodes."""
        kept = own.operator
        factors = [single for i, single in enumerate(self._singles) if i != kept]
        factors.append(own.unary(self.form))
        for e, link in enumerate(self._links):
            factors.append(own.joint(self.form, e) if kept in link.scope else link)
        return factors


def _single_nodes(instance: Instance, form: Form) -> list[Floats]:
    """Return for each operator the cheapest configuration that contains each node."""
    cheapest = []
    for operator, domain in enumerate(instance.domains):
        unary = form.unary(operator, domain)
        least = np.full(instance.nodes, np.inf)
        for slot in range(domain.nodes.shape[1]):
            np.minimum.at(least, domain.nodes[:, slot], unary)
        cheapest.append(least)
    return cheapest


def _node_table(instance: Instance, form: Form, e: int) -> Floats:
    flow = instance.flows[e]
    table = form.delay[e] * instance.delay_ms + form.money * flow.rate * instance.link_cost
    source, target = instance.domains[flow.source], instance.domains[flow.target]
    together = source.use.min(axis=0) + target.use.min(axis=0)
    crowded = np.diag((together[:, None] > instance.capacity).any(axis=0))
    return np.where(crowded, np.inf, table)


class _OwnTables:
    """The tables between the configurations of one operator and the nodes of its neighbours."""

    def __init__(self, instance: Instance, operator: int) -> None:
        self.operator = operator
        self._instance = instance
        self._domain = domain = instance.domains[operator]
        delay, cost = instance.delay_ms, instance.link_cost
        self._towards: dict[bool, tuple[Floats, Floats]] = {}
        if any(flow.source == operator for flow in instance.flows):
            self._towards[True] = domain.worst(delay), domain.mean(cost)
        if any(flow.target == operator for flow in instance.flows):
            self._towards[False] = domain.worst(delay.T), domain.mean(cost.T)
        self._taken = domain.taken

    def unary(self, form: Form) -> Factor:
        """Return the operator's own part."""
        return Factor((self.operator,), form.unary(self.operator, self._domain))

    def joint(self, form: Form, e: int) -> Factor:
        """Return the part of a stream: its configurations against single nodes of the neighbour."""
        flow, capacity = self._instance.flows[e], self._instance.capacity
        outgoing = flow.source == self.operator
        other = flow.target if outgoing else flow.source
        farthest, cost = self._towards[outgoing]
        table = form.delay[e] * farthest + form.money * flow.rate * cost
        least = self._instance.domains[other].use.min(axis=0)[:, None]
        full = (self._taken > 0) & (self._taken + least > capacity)
        table[full.any(axis=1)] = np.inf
        return Factor((self.operator, other), table)
