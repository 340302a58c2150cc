"""Linear forms: lower bounds on the objective and on the limited metrics.

The response time is the largest delay of a path from a source to a sink, so any mix of paths is a
lower bound::

    R >= sum_i f_i latency_i + sum_e f_e delay_e

with ``f_i`` and ``f_e`` the weight of the paths through operator i and stream e. The cost is a sum
already, so the objective is bounded by a sum over operators and streams, which dynamic programming
can minimise. Any choice of paths is valid. We take each of the few longest paths alone, and their
even mix.

The prices of nodes in use, the rent, are not such a sum. There are two ways to bound them.
``rent.py`` bounds them separately and adds the result to a form; that is good if few operators
share a node. Or each operator pays a share of the price of its nodes, proportional to the resources
it uses there. That never exceeds the price, because no node is used by more than all of it. It is a
sum and part of a form, and good if operators fill nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np

from elastream.replication.planner.configurations import Configurations, Floats
from elastream.replication.planner.instance import Instance, Objective

Path = tuple[int, ...]

_PATHS_SEEN = 2000
_PATHS_USED = 8


@dataclass(frozen=True, slots=True)
class Form:
    """A sum over operators and streams: a lower bound on the objective or on the use of a limit."""

    latency: Floats
    """Weight of the latency of each operator."""
    delay: Floats
    """Weight of the delay of each stream."""
    money: float
    """Weight of all costs."""
    rent: float = 0.0
    """Weight of the rent by shares, which is then not added separately: 0 or the weight of the
    costs."""
    busy: Floats | None = None
    """Weight of what each operator keeps busy; None: 0."""

    def unary(self, operator: int, domain: Configurations) -> Floats:
        """Return the part of an operator for each of its configurations."""
        costs = self.money * domain.price + self.rent * domain.rent
        if self.busy is not None:
            costs = costs + self.busy[operator] * domain.busy
        return np.asarray(self.latency[operator] * domain.latency_ms + costs)

    @property
    def on_top(self) -> float:
        """Weight of the rent that ``rent.py`` bounds separately."""
        return self.money - self.rent

    def with_shares(self) -> Form:
        """Return the form with the rent by shares included."""
        return replace(self, rent=self.money)


def objective_forms(instance: Instance, goal: Objective, paths: list[Path]) -> list[Form]:
    """Return forms that are at most the objective without its downtime.

    The mix of paths without rent comes first, the forms with shares of the rent last.
    """
    shares = [_even(instance, [path]) for path in paths]
    if len(paths) > 1:
        shares.insert(0, _even(instance, paths))
    if goal.response == 0:
        shares = shares[:1]
    forms = [
        Form(goal.response * latency, goal.response * delay, goal.cost) for latency, delay in shares
    ]
    return [*forms, forms[0].with_shares()] if instance.node_price.any() else forms


def limit_forms(
    instance: Instance, goal: Objective, paths: list[Path], *, below: float
) -> list[Form]:
    """Return forms that are at most 1 in every deployment within the goal's limits.

    A limit that every deployment worth less than ``below`` meets anyway gets no form.
    """
    nothing = np.zeros(len(instance.domains)), np.zeros(len(instance.flows))
    forms = []
    for operators, most in instance.batches:
        if len(operators) > 1:
            busy = np.zeros(len(instance.domains))
            busy[list(operators)] = 1 / most
            forms.append(Form(*nothing, 0.0, busy=busy))
    least_price = sum(float(domain.price.min()) for domain in instance.domains)
    least_ms = [float(domain.latency_ms.min()) for domain in instance.domains]
    fastest_ms = max(sum(least_ms[i] for i in path) for path in paths)
    if below - goal.response * fastest_ms > goal.cost * goal.cost_limit:
        forms.append(Form(*nothing, 1 / goal.cost_limit))
        if instance.node_price.any():
            forms.append(forms[-1].with_shares())
    if below - goal.cost * least_price > goal.response * goal.response_limit_ms:
        for latency, delay in (_even(instance, [path]) for path in paths):
            forms.append(Form(latency / goal.response_limit_ms, delay / goal.response_limit_ms, 0))
    return forms


def longest_paths(instance: Instance) -> list[Path]:
    """Return the most relevant paths, judged by least latencies and mean delays.

    A path whose operators are all on another path is never longer if delays obey the triangle
    inequality, and is dropped.
    """
    paths = list(islice(all_paths(instance), _PATHS_SEEN))
    if _metric(instance.delay_ms):
        sets = [frozenset(path) for path in paths]
        paths = [p for p, own in zip(paths, sets, strict=True) if not any(own < s for s in sets)]
    least = [float(domain.latency_ms.min()) for domain in instance.domains]
    hop = float(instance.delay_ms.mean())
    paths.sort(key=lambda path: -sum(least[i] for i in path) - hop * (len(path) - 1))
    return paths[:_PATHS_USED]


def all_paths(instance: Instance) -> Iterator[Path]:
    """Yield the operators along every path from a source to a sink."""
    successors: list[list[int]] = [[] for _ in instance.domains]
    for flow in instance.flows:
        successors[flow.source].append(flow.target)
    fed = {flow.target for flow in instance.flows}
    waiting: list[Path] = [(i,) for i in range(len(successors)) if i not in fed]
    while waiting:
        path = waiting.pop()
        if not successors[path[-1]]:
            yield path
        waiting += [(*path, target) for target in successors[path[-1]]]


def _even(instance: Instance, paths: list[Path]) -> tuple[Floats, Floats]:
    """Return how often each operator and stream is on a path, as a share of the paths."""
    latency, delay = np.zeros(len(instance.domains)), np.zeros(len(instance.flows))
    number = {(flow.source, flow.target): e for e, flow in enumerate(instance.flows)}
    for path in paths:
        latency[list(path)] += 1 / len(paths)
        delay[[number[hop] for hop in pairwise(path)]] += 1 / len(paths)
    return latency, delay


def _metric(delay: Floats) -> bool:
    """Return whether no detour is shorter than the direct link."""
    return all(bool((delay[:, [v]] + delay[v] >= delay).all()) for v in range(len(delay)))
