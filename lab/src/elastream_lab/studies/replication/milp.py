"""The paper's integer program for HiGHS: a cross-check and a baseline (004, section 5).

Variables: ``x[i, U] = 1`` gives operator i the configuration U, ``y[e, U, V] = 1`` says that the
ends of stream e have U and V; r and t are the response time and the downtime::

    minimise   w_r r / Rmax + w_c C(x, y) / Cmax + w_d t / Dmax             (12)
    such that  r >= delay of every path from a source to a sink             (13)
               t >= downtime of every operator                              (14)
               r <= Rmax, C(x, y) <= Cmax, t <= Dmax                        (15-17)
               replicas on a node take at most its resources and slots      (18)
               stages of a batch keep at most so much busy together
               sum_U x[i, U] = 1                                            (19)
               x[i, U] = sum_V y[e, U, V],  x[j, V] = sum_U y[e, U, V]      (20, 21)
               sum of x[i, U] with u in U <= z[u]  for every i              (ours)

``z[u] = 1`` says that node u is in use and adds its price to C; nodes without a price have none.

One departure: y is continuous. With x whole, (20) and (21) leave it no choice.
The configurations are those of the exact planner, so saturated ones have no variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from elastream.model.plan import Infeasible
from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner.configurations import Floats, Ints
from elastream.replication.planner.exact import deployment_of, objective_of, plan_of
from elastream.replication.planner.forms import all_paths
from elastream.replication.planner.instance import Instance, instance_of
from elastream.replication.planner.search import ValuedDeployment
from elastream.replication.planner.tables import stream_tables


def variables(instance: Instance) -> int:
    """Return how many variables x and y the program has (table IV)."""
    sizes = instance.sizes()
    return sum(sizes) + sum(sizes[flow.source] * sizes[flow.target] for flow in instance.flows)


def replication_milp(
    problem: ReplicationProblem, *, time_limit_s: float = math.inf
) -> ReplicationPlan | Infeasible | None:
    """Return the deployment of least objective; None where HiGHS finds none in time."""
    from scipy.optimize import Bounds, milp

    instance = instance_of(problem)
    if isinstance(instance, Infeasible):
        return instance
    program = ReplicationProgram(problem, instance)
    found = milp(
        program.objective(),
        integrality=program.whole(),
        bounds=Bounds(0, program.upper()),
        constraints=program.constraints(),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    if found.status == 2:
        return Infeasible("the integer program has no solution")
    if found.x is None:
        return None
    places = tuple(
        tuple(domain.replicas(int(np.argmax(found.x[start : start + len(domain)]))))
        for domain, start in zip(instance.domains, program.x_start, strict=True)
    )
    deployment = deployment_of(problem, instance, ValuedDeployment(places, float(found.fun)))
    bound = found.mip_dual_bound
    return plan_of(problem, deployment, -np.inf if bound is None else float(bound))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows ``low <= matrix @ variables <= high`` as coordinates."""

    row: Ints
    column: Ints
    value: Floats
    low: Floats
    high: Floats


class ReplicationProgram:
    """The program as arrays: the columns are all x, all z, all y, then r and t."""

    def __init__(self, problem: ReplicationProblem, instance: Instance) -> None:
        self._problem = problem
        self._instance = instance
        self._tables = stream_tables(instance)
        sizes = instance.sizes()
        self._priced = [int(u) for u in np.flatnonzero(instance.node_price)]
        starts = np.cumsum([0, *sizes])
        self.x_start = [int(start) for start in starts[:-1]]
        self._z_start = int(starts[-1])
        self._whole = self._z_start + len(self._priced)
        pairs = [sizes[flow.source] * sizes[flow.target] for flow in instance.flows]
        self._y_start = [int(start) for start in self._whole + np.cumsum([0, *pairs])][:-1]
        self._response = self._whole + sum(pairs)
        self._columns = self._response + 2

    def objective(self) -> Floats:
        """Return (12): what each variable adds to the objective."""
        goal = objective_of(self._problem)
        objective = goal.cost * self._cost()
        objective[self._response :] = goal.response, goal.downtime
        return objective

    def whole(self) -> np.ndarray:
        """Return 1 for each variable that must be whole."""
        return (np.arange(self._columns) < self._whole).astype(np.int64)

    def upper(self) -> Floats:
        """Return the most each variable may be: 1, and (15) and (17) for r and t."""
        upper = np.ones(self._columns)
        bounds = self._problem.bounds
        upper[self._response :] = bounds.response_ms, bounds.downtime_ms
        return upper

    def constraints(self) -> list[Any]:
        """Return all constraints for SciPy."""
        from scipy import sparse
        from scipy.optimize import LinearConstraint

        made = []
        for rows in self.rows():
            shape = len(rows.low), self._columns
            matrix: Any = sparse.csr_array((rows.value, (rows.row, rows.column)), shape=shape)
            made.append(LinearConstraint(matrix, rows.low, rows.high))
        return made

    def rows(self) -> Iterator[Rows]:
        """Return all constraints."""
        yield self._dense_rows()
        yield from self._pairing_rows()
        yield from self._use_rows()

    def _cost(self) -> Floats:
        cost = np.zeros(self._columns)
        for domain, start in zip(self._instance.domains, self.x_start, strict=True):
            cost[start : start + len(domain)] = domain.price
        cost[self._z_start : self._whole] = self._instance.node_price[self._priced]
        for table, start in zip(self._tables, self._y_start, strict=True):
            cost[start : start + table.cost.size] = table.cost.ravel()
        return cost

    def _dense_rows(self) -> Rows:
        """Return (13), (14), (16), (18) and (19), built as full rows."""
        made: list[tuple[Floats, float, float]] = []
        made += [(row, -np.inf, 0.0) for row in self._path_rows()]
        made += [(row, -np.inf, 0.0) for row in self._downtime_rows()]
        made.append((self._cost(), -np.inf, float(self._problem.bounds.cost)))
        made += self._capacity_rows()
        for domain, start in zip(self._instance.domains, self.x_start, strict=True):
            row = np.zeros(self._columns)
            row[start : start + len(domain)] = 1
            made.append((row, 1.0, 1.0))
        matrix = np.array([row for row, _, _ in made])
        rows, columns = np.nonzero(matrix)
        low, high = (np.array([each[end] for each in made]) for end in (1, 2))
        return Rows(
            rows.astype(np.int64), columns.astype(np.int64), matrix[rows, columns], low, high
        )

    def _path_rows(self) -> Iterator[Floats]:
        number = {(flow.source, flow.target): e for e, flow in enumerate(self._instance.flows)}
        for path in all_paths(self._instance):
            row = np.zeros(self._columns)
            for i in path:
                domain, start = self._instance.domains[i], self.x_start[i]
                row[start : start + len(domain)] = domain.latency_ms
            for hop in pairwise(path):
                table, start = self._tables[number[hop]], self._y_start[number[hop]]
                row[start : start + table.delay_ms.size] = table.delay_ms.ravel()
            row[self._response] = -1
            yield row

    def _downtime_rows(self) -> Iterator[Floats]:
        for domain, start in zip(self._instance.domains, self.x_start, strict=True):
            row = np.zeros(self._columns)
            row[start : start + len(domain)] = domain.downtime_ms
            row[self._response + 1] = -1
            yield row

    def _capacity_rows(self) -> list[tuple[Floats, float, float]]:
        made = []
        for (kind, node), capacity in np.ndenumerate(self._instance.capacity):
            row = np.zeros(self._columns)
            for domain, start in zip(self._instance.domains, self.x_start, strict=True):
                row[start : start + len(domain)] = domain.count[:, node] * domain.use[:, kind]
            made.append((row, -np.inf, float(capacity)))
        for operators, most in self._instance.batches:
            row = np.zeros(self._columns)
            for i in operators:
                domain, start = self._instance.domains[i], self.x_start[i]
                row[start : start + len(domain)] = domain.busy
            made.append((row, -np.inf, most * (1 + 1e-9)))
        return made

    def _pairing_rows(self) -> Iterator[Rows]:
        """Return (20) and (21) for each stream."""
        for flow, start in zip(self._instance.flows, self._y_start, strict=True):
            sizes = self._instance.sizes()
            shape = sizes[flow.source], sizes[flow.target]
            y = start + np.arange(shape[0] * shape[1]).reshape(shape)
            for operator, along in ((flow.source, y), (flow.target, y.T)):
                rows = np.repeat(np.arange(len(along)), along.shape[1])
                own = self.x_start[operator] + np.arange(len(along))
                yield Rows(
                    np.concatenate([rows, np.arange(len(along))]),
                    np.concatenate([along.ravel(), own]),
                    np.concatenate([np.ones(along.size), -np.ones(len(along))]),
                    np.zeros(len(along)),
                    np.zeros(len(along)),
                )

    def _use_rows(self) -> Iterator[Rows]:
        """Return for each operator that it is on a node with a price only where that is in use."""
        if not self._priced:
            return
        nodes = np.arange(len(self._priced))
        for domain, start in zip(self._instance.domains, self.x_start, strict=True):
            configuration, node = np.nonzero(domain.count[:, self._priced])
            yield Rows(
                np.concatenate([node, nodes]),
                np.concatenate([start + configuration, self._z_start + nodes]),
                np.concatenate([np.ones(len(node)), -np.ones(len(nodes))]),
                np.full(len(nodes), -np.inf),
                np.zeros(len(nodes)),
            )
