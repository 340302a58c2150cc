"""Branch and bound over the operators in order, many partial deployments at a time.

A batch of partial deployments is combined with all configurations of the next operator in one
matrix of bounds. What survives the bounds, the capacities and the order of interchangeable nodes is
expanded further, best first. If nodes have prices, the rent that is certain by then is part of the
bounds. Complete deployments are measured exactly. The same expansion with only the best few kept at
each operator is a beam search, which finds the first good deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from elastream.replication.planner.configurations import Floats, Ints
from elastream.replication.planner.elimination import Effort
from elastream.replication.planner.forms import Form
from elastream.replication.planner.instance import Instance, Objective
from elastream.replication.planner.rent import Rent
from elastream.replication.planner.tables import cost_to_go, stream_tables

LEAST_GAIN = 1e-12
"""A deployment must be better by more than this to be considered better."""
_WITHIN = 1 + 1e-9
"""Use of a limit that still counts as within it."""
_BATCH = 400_000
"""Number of bounds computed at once."""
_EACH_BOUND, _EACH_NODE, _EACH_FORM = 2, 3, 4
"""Cost of a step in table values: a first bound; a node of a pair that survives it; a form of a
pair that also fits. Measured."""
_PATTERNS = 30
"""Above this number of usage patterns of interchangeable nodes, the patterns are not
distinguished."""


@dataclass(frozen=True, slots=True)
class ValuedDeployment:
    """A complete deployment: the nodes of each operator's replicas, and the objective."""

    places: tuple[tuple[int, ...], ...]
    value: float


@dataclass(frozen=True, slots=True)
class _Partial:
    """Partial deployments of the first operators, one row each."""

    choice: NDArray[np.int32]
    bounds: Floats
    """One column per form, including the rent added to it."""
    used: Floats
    """Room taken, of each kind and node."""
    occupied: NDArray[np.bool_]
    """Nodes with replicas."""
    downtime_ms: Floats

    def __len__(self) -> int:
        return len(self.choice)

    def rows(self, chosen: slice | NDArray[np.int64]) -> _Partial:
        return _Partial(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @classmethod
    def joined(cls, pieces: list[_Partial]) -> _Partial:
        if len(pieces) == 1:
            return pieces[0]
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(each, name) for each in pieces]) for name in names))


class Search:
    """The deployments of one instance, bounded by forms."""

    def __init__(
        self,
        instance: Instance,
        goal: Objective,
        *,
        objective: list[Form],
        limits: list[Form],
        in_order: list[tuple[int, int]],
        effort: Effort,
    ) -> None:
        self._instance = instance
        self._effort = effort
        self._goal = goal
        self._tables = stream_tables(instance)
        self._rent = Rent(instance)
        forms = objective + limits
        self._costs = [cost_to_go(instance, self._tables, form, effort) for form in forms]
        self._money = np.array([form.on_top for form in forms])
        self._objectives = len(objective)
        last = len(instance.domains)
        self._rest = [self._rent.rest(range(t, last)) for t in range(last + 1)]
        self._first = np.array([first for first, _ in in_order], dtype=np.int64)
        self._second = np.array([second for _, second in in_order], dtype=np.int64)
        self._skips = [
            (domain.count[:, self._second] > 0) & (domain.count[:, self._first] == 0)
            for domain in instance.domains
        ]

    @property
    def root(self) -> float:
        """Lower bound on the objective of every deployment of the instance."""
        nothing = self._nothing()
        if (nothing.bounds[:, self._objectives :] > _WITHIN).any():
            return np.inf
        return float(self._worth(nothing)[0])

    def beam(self, width: int, below: float) -> ValuedDeployment | None:
        """Return a deployment worth less than ``below``, if the beam leads to one."""
        if not self.root < below:
            return None
        partial = self._nothing()
        last = len(self._instance.domains) - 1
        for t in range(last):
            pieces = [self._expanded(part, t, below) for part in self._batches(partial, t)]
            partial = _Partial.joined(pieces)
            if not len(partial):
                return None
            order = np.argsort(self._worth(partial), kind="stable")
            partial = partial.rows(order[:width])
        return self._best_complete(partial, last, below)

    def run(self, below: float, report: Callable[[ValuedDeployment], None]) -> float:
        """Report better and better deployments; return a lower bound on what was not searched.

        The bound is infinite if nothing worth less than the last report is left.
        """
        last = len(self._instance.domains) - 1
        stack = [(0, self._nothing())] if self.root < below - LEAST_GAIN else []
        while stack:
            if self._effort.spent:
                return min(float(self._worth(partial).min()) for _, partial in stack)
            t, partial = stack.pop()
            partial = partial.rows(np.flatnonzero(self._worth(partial) < below - LEAST_GAIN))
            if not len(partial):
                continue
            if t == last:
                best = self._best_complete(partial, t, below)
                if best is not None:
                    below = best.value
                    report(best)
                continue
            after = self._expanded(partial, t, below)
            after = after.rows(np.argsort(self._worth(after), kind="stable"))
            stack += [(t + 1, part) for part in reversed(self._batches(after, t + 1))]
        return np.inf

    def _nothing(self) -> _Partial:
        nodes = self._instance.nodes
        nothing = _Partial(
            np.zeros((1, 0), dtype=np.int32),
            np.array([[cost.root for cost in self._costs]]),
            np.zeros((1, *self._instance.capacity.shape)),
            np.zeros((1, nodes), dtype=bool),
            np.array([self._instance.least_downtime_ms]),
        )
        return replace(nothing, bounds=nothing.bounds + self._on_top(nothing, 0))

    def _on_top(self, partial: _Partial, t: int) -> Floats:
        """Return the rent to add to each form, with the operators before t placed."""
        least = self._rent.least(self._rest[t], partial.occupied, partial.used)
        return np.outer(least, self._money)

    def _batches(self, partial: _Partial, t: int) -> list[_Partial]:
        step = max(1, _BATCH // len(self._instance.domains[t]))
        return [partial.rows(slice(i, i + step)) for i in range(0, len(partial), step)]

    def _worth(self, partial: _Partial) -> Floats:
        best = partial.bounds[:, : self._objectives].max(axis=1)
        return np.asarray(best + self._goal.downtime * partial.downtime_ms)

    def _expanded(self, partial: _Partial, t: int, below: float) -> _Partial:
        """Return every partial deployment with each configuration of operator t that survives."""
        domain = self._instance.domains[t]
        rows, cols, first = self._first_bounds(partial, t, below)
        self._effort.spend(_EACH_NODE * len(rows) * self._instance.capacity.size)
        fits = np.flatnonzero(self._fits(partial, t, rows, cols))
        rows, cols, first = rows[fits], cols[fits], first[fits]
        downtime = np.maximum(partial.downtime_ms[rows], domain.downtime_ms[cols])
        room = below - LEAST_GAIN - self._goal.downtime * downtime
        bounds, kept = [first], first < room
        self._effort.spend(_EACH_FORM * len(rows) * len(self._costs))
        for number, cost in enumerate(self._costs[1:], start=1):
            bound = cost.some_next(partial.choice, partial.bounds[:, number], t, rows, cols)
            bounds.append(bound)
            kept &= bound < room if number < self._objectives else bound <= _WITHIN
        occupied = partial.occupied[rows[kept]] | (domain.count[cols[kept]] > 0)
        ordered = ~(occupied[:, self._second] & ~occupied[:, self._first]).any(axis=1)
        kept[kept] = ordered
        rows, cols = rows[kept], cols[kept]
        after = _Partial(
            np.column_stack([partial.choice[rows], cols.astype(np.int32)]),
            np.column_stack([bound[kept] for bound in bounds]),
            partial.used[rows] + domain.use[cols][:, :, None] * domain.count[cols][:, None],
            occupied[ordered],
            downtime[kept],
        )
        if not self._rent.due:
            return after
        added = self._on_top(after, t + 1) - self._on_top(partial, t)[rows]
        return self._promising(replace(after, bounds=after.bounds + added), below)

    def _first_bounds(self, partial: _Partial, t: int, below: float) -> tuple[Ints, Ints, Floats]:
        """Return the promising pairs of partial deployment and configuration, with bounds."""
        room = below - LEAST_GAIN - self._goal.downtime * partial.downtime_ms
        pieces = []
        for rows, cols in self._blocks(partial, t):
            bound = self._costs[0].all_next(partial.choice[rows], partial.bounds[rows, 0], t, cols)
            self._effort.spend(_EACH_BOUND * bound.size)
            row, col = np.nonzero(bound < room[rows][:, None])
            pieces.append((rows[row], cols[col], bound[row, col]))
        rows, cols, bounds = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return rows, cols, bounds

    def _blocks(self, partial: _Partial, t: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield blocks of partial deployments with the configurations that node order allows.

        If many nodes are interchangeable, few of them are next in order, so few configurations may
        follow.
        """
        everything = np.arange(len(partial)), np.arange(len(self._instance.domains[t]))
        if not len(self._first):
            yield everything
            return
        there = np.packbits(partial.occupied[:, self._first], axis=1)
        patterns, which = np.unique(there, axis=0, return_inverse=True)
        if len(patterns) > _PATTERNS:
            yield everything
            return
        for number in range(len(patterns)):
            rows = np.flatnonzero(which.reshape(-1) == number)
            missing = ~partial.occupied[rows[0], self._first]
            yield rows, np.flatnonzero(~self._skips[t][:, missing].any(axis=1))

    def _promising(self, partial: _Partial, below: float) -> _Partial:
        """Return the partial deployments within the limits that may be worth less."""
        within = (partial.bounds[:, self._objectives :] <= _WITHIN).all(axis=1)
        return partial.rows(np.flatnonzero(within & (self._worth(partial) < below - LEAST_GAIN)))

    def _fits(
        self, partial: _Partial, t: int, rows: NDArray[np.int64], cols: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        domain = self._instance.domains[t]
        fits = np.ones(len(rows), dtype=bool)
        for kind, capacity in enumerate(self._instance.capacity):
            need = domain.use[:, kind]
            for slot in range(domain.nodes.shape[1]) if need.any() else ():
                node = domain.nodes[cols, slot]
                taken = partial.used[rows, kind, node] + domain.count[cols, node] * need[cols]
                fits &= taken <= capacity[node]
        return fits

    def _best_complete(self, partial: _Partial, t: int, below: float) -> ValuedDeployment | None:
        complete = _Partial.joined(
            [self._expanded(part, t, below) for part in self._batches(partial, t)]
        )
        if not len(complete):
            return None
        value = self._objective_of(complete)
        best = int(np.argmin(value))
        if not value[best] < below - LEAST_GAIN:
            return None
        chosen = complete.choice[best].tolist()
        domains = self._instance.domains
        places = (tuple(d.replicas(row)) for d, row in zip(domains, chosen, strict=True))
        return ValuedDeployment(tuple(places), float(value[best]))

    def _objective_of(self, complete: _Partial) -> Floats:
        """Return the objective of complete deployments; infinite if a limit is exceeded."""
        choice = complete.choice
        domains = self._instance.domains
        arrival = [d.latency_ms[choice[:, i]] for i, d in enumerate(domains)]
        waits = [np.zeros(len(choice)) for _ in domains]
        cost = self._rent.paid(complete.occupied)
        cost = sum((d.price[choice[:, i]] for i, d in enumerate(domains)), cost)
        by_target = sorted(
            zip(self._instance.flows, self._tables, strict=True), key=lambda pair: pair[0].source
        )
        for flow, table in by_target:
            pair = choice[:, flow.source], choice[:, flow.target]
            cost = cost + table.cost[pair]
            reached = waits[flow.source] + arrival[flow.source] + table.delay_ms[pair]
            waits[flow.target] = np.maximum(waits[flow.target], reached)
        response = np.max([w + a for w, a in zip(waits, arrival, strict=True)], axis=0)
        goal = self._goal
        worth = goal.response * response + goal.cost * cost + goal.downtime * complete.downtime_ms
        within = (response <= goal.response_limit_ms * _WITHIN) & (
            cost <= goal.cost_limit * _WITHIN
        )
        return np.where(within, worth, np.inf)
