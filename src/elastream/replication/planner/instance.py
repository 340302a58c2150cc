"""The replication problem as arrays, for the exact planner and the relaxations.

Operators are numbered in topological order: every stream leads to a later one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastream.model.plan import Infeasible
from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner.configurations import (
    Configurations,
    Floats,
    Ints,
    configurations_of,
    rooms,
)


class Flow(NamedTuple):
    """A stream between numbered operators."""

    source: int
    target: int
    rate: float


@dataclass(frozen=True, slots=True)
class Objective:
    """Minimise ``response R + cost C + downtime D``, R and C within limits; C includes the rent."""

    response: float
    """Weight of a millisecond of response time."""
    cost: float
    """Weight of a unit of cost."""
    downtime: float
    """Weight of a millisecond of downtime."""
    response_limit_ms: float = np.inf
    cost_limit: float = np.inf

    @property
    def ceiling(self) -> float:
        """Upper bound on the objective of deployments within the limits, without downtime."""
        response = self.response * self.response_limit_ms if self.response else 0.0
        return response + (self.cost * self.cost_limit if self.cost else 0.0)


@dataclass(frozen=True, slots=True)
class Instance:
    """Operators with their remaining configurations."""

    names: tuple[str, ...]
    domains: tuple[Configurations, ...]
    flows: tuple[Flow, ...]
    capacity: Floats
    """Room of each node that is still free, a row for each kind."""
    delay_ms: Floats
    link_cost: Floats
    node_price: Floats
    """Cost per hour of each node that holds a replica."""
    batches: tuple[tuple[tuple[int, ...], float], ...]
    """Operators whose stages follow each other, and what they may keep busy together."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_price)

    def fitted(self) -> Instance | None:
        """Book the operators with one configuration left; None if an operator has none.

        Their resources are no longer free, which may rule out configurations of the others. This is
        repeated until nothing changes.
        """
        domains, capacity = list(self.domains), self.capacity
        changed = True
        while changed:
            changed = False
            for i, domain in enumerate(domains):
                if not domain.use.any():
                    continue
                taken = domain.taken
                fits = np.all(taken <= capacity, axis=(1, 2))
                if not fits.all():
                    domains[i] = domain = domain.where(fits)
                if len(domain) == 1:
                    capacity = capacity - taken[fits][0]
                    domains[i] = replace(domain, use=np.zeros_like(domain.use))
                    changed = True
        if not all(len(domain) for domain in domains):
            return None
        return replace(self, domains=tuple(domains), capacity=capacity)

    def narrowed(self, keep: Sequence[Ints | NDArray[np.bool_]]) -> Instance:
        """Return the instance with the chosen configurations of each operator."""
        chosen = (domain.where(rows) for domain, rows in zip(self.domains, keep, strict=True))
        return replace(self, domains=tuple(chosen))

    def bounded(self, least: Sequence[Floats]) -> Instance:
        """Return the instance with new lower bounds for each configuration of each operator."""
        pairs = zip(self.domains, least, strict=True)
        return replace(self, domains=tuple(replace(d, least=each) for d, each in pairs))

    @property
    def least_downtime_ms(self) -> float:
        """Lower bound on the downtime of every deployment."""
        return max(float(domain.downtime_ms.min()) for domain in self.domains)

    def sizes(self) -> tuple[int, ...]:
        """Return the number of configurations of each operator."""
        return tuple(len(domain) for domain in self.domains)


def _in_depth(before: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the operators in topological order, those that complete streams as early as possible.

    The bounds of the search are tighter the fewer placed operators have streams to unplaced ones.
    If every two sources are joined, the pairs come one after the other, not all sources first.
    """
    read = {source for sources in before.values() for source in sources}
    waiting = [name for name in before if name not in read][::-1]
    placed: dict[str, None] = {}
    while waiting:
        missing = [source for source in before[waiting[-1]] if source not in placed]
        if missing:
            waiting.append(missing[0])
        else:
            placed[waiting.pop()] = None
    return tuple(placed)


def instance_of(problem: ReplicationProblem) -> Instance | Infeasible:
    """Return the problem as arrays, or the operator that has no configuration."""
    number = {operator.name: i for i, operator in enumerate(problem.operators)}
    sources: dict[str, list[str]] = {operator.name: [] for operator in problem.operators}
    for stream in problem.streams:
        sources[stream.target].append(stream.source)
    names = _in_depth(sources)
    domains = []
    for name in names:
        domain = configurations_of(problem, number[name])
        if isinstance(domain, Infeasible):
            return domain
        domains.append(domain)
    position = {name: i for i, name in enumerate(names)}
    flows = tuple(
        Flow(position[stream.source], position[stream.target], float(stream.rate))
        for stream in problem.streams
    )
    return Instance(
        names,
        tuple(domains),
        flows,
        rooms(problem),
        np.array(problem.links.delay_ms, dtype=float),
        np.array(problem.links.cost, dtype=float),
        np.array([node.price for node in problem.nodes], dtype=float),
        tuple(
            (tuple(position[name] for name in batch.operators), float(batch.most))
            for batch in problem.batches
        ),
    )
