"""Our problems as one would first write them for CP-SAT, the constraint solver of OR-tools.

- A migration with free placement: a 0/1 variable for each task and node, the current places as a
  hint; where nodes must be left, one more for each node in use.
- A sequence of migrations: the program of intervals and matchings that HiGHS gets
  (:mod:`~elastream_lab.benchmarks._sequence_rivals`), all variables 0/1.
- Replication: the program of paper 004, section 5
  (:mod:`~elastream_lab.studies.replication.milp`). CP-SAT knows whole numbers alone, so delays and
  prices are counted in millionths.

CP-SAT has one worker, and its effort is limited by its own deterministic time: equal problems have
equal answers. Only a process of its own imports this module: ortools and ``highspy`` do not go
together (decision 8).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from ortools.sat.python import cp_model

from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.migration import StepProblem, exact_sum
from elastream.model.plan import Infeasible
from elastream.placement.free_step.whole_step import WholeStep, whole_step
from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner.instance import instance_of
from elastream_lab.benchmarks._sequence_rivals import IntervalProgram
from elastream_lab.studies.replication.milp import ReplicationProgram, Rows

Ints: TypeAlias = NDArray[np.int64]

EFFORT = 30.0
"""Units of CP-SAT's deterministic time."""
_MILLION = 10**6
_PRICE_PARTS = 10**9
"""Parts of one in which the objective of replication is counted."""


def by_cp_sat(
    problem: StepProblem | SequenceProblem | ReplicationProblem,
) -> tuple[float, bool] | None:
    """Return the least cost found and whether it is proven; None where no plan was found."""
    if isinstance(problem, StepProblem):
        return _step(problem)
    if isinstance(problem, SequenceProblem):
        return _sequence(problem)
    return _replication(problem)


def _solved(model: Any) -> tuple[float, bool] | None:
    """Return the objective, and whether it is proven."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = EFFORT
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        assert status == cp_model.UNKNOWN, solver.status_name(status)
        return None
    return solver.objective_value, status == cp_model.OPTIMAL


def _step(problem: StepProblem) -> tuple[float, bool] | None:
    step = whole_step(problem)
    model = cp_model.CpModel()
    there = [[model.new_bool_var("") for _ in step.nodes] for _ in step.work]
    for places in there:
        model.add_exactly_one(places)
    for node in zip(*there, strict=True):
        model.add(_weighted(node, step.work) <= step.capacity)
    _leave_nodes(model, step, there)
    moved = [place.negated() for place in _hinted(model, step, there)]
    model.minimize(_weighted(moved, step.state))
    found = _solved(model)
    return found and (float(found[0] * step.state_unit), found[1])


def _hinted(model: Any, step: WholeStep, there: list[list[Any]]) -> list[Any]:
    """Hint at the current places; return the variable of each task's own."""
    for places, home in zip(there, step.home, strict=True):
        for node, place in enumerate(places):
            model.add_hint(place, node == home)
    return [places[home] for places, home in zip(there, step.home, strict=True)]


def _leave_nodes(model: Any, step: WholeStep, there: list[list[Any]]) -> None:
    """Use no more nodes than are allowed."""
    if step.allowed == len(step.nodes):
        return
    used = [model.new_bool_var("") for _ in step.nodes]
    for places in there:
        for place, use in zip(places, used, strict=True):
            model.add_implication(place, use)
    model.add(sum(used) <= step.allowed)


def _weighted(variables: Any, weights: Ints) -> Any:
    return cp_model.LinearExpr.weighted_sum(list(variables), weights.tolist())


def _sequence(problem: SequenceProblem) -> tuple[float, bool] | None:
    program = IntervalProgram(problem)
    coordinates = (program.rows, program.columns, program.entries, program.low, program.high)
    rows = Rows(*map(np.array, coordinates))
    found = _least(-_whole(program.gain), np.ones(program.size, dtype=np.int64), [rows])
    total = float(exact_sum(problem.state)) * len(problem.targets)
    return found and (total + found[0], found[1])


def _replication(problem: ReplicationProblem) -> tuple[float, bool] | None:
    instance = instance_of(problem)
    assert not isinstance(instance, Infeasible), instance.reason
    program = ReplicationProgram(problem, instance)
    upper = program.upper()
    unit = np.full(len(upper), _MILLION)
    unit[-2:] = 1  # response time and downtime are counted in millionths themselves
    price = _whole(program.objective() * _PRICE_PARTS) * unit
    rows = (_in_millionths(rows, unit) for rows in program.rows())
    found = _least(price, _whole(upper * _MILLION) // unit, rows)
    return found and (found[0] / _MILLION / _PRICE_PARTS, found[1])


def _in_millionths(rows: Rows, unit: Ints) -> Rows:
    value = rows.value * unit[rows.column]
    return replace(rows, value=value, low=rows.low * _MILLION, high=rows.high * _MILLION)


def _least(price: Ints, upper: Ints, blocks: Iterable[Rows]) -> tuple[float, bool] | None:
    """Return the least ``price @ v`` of whole ``v`` from 0 to ``upper`` that keep to the rows."""
    model = cp_model.CpModel()
    variables = [model.new_int_var(0, most, "") for most in upper.tolist()]
    for rows in blocks:
        _add(model, variables, rows)
    model.minimize(_weighted(variables, price))
    return _solved(model)


def _add(model: Any, variables: list[Any], rows: Rows) -> None:
    """Add constraints, each in the largest units that leave its rounded entries whole."""
    order = np.argsort(rows.row, kind="stable")
    ends = np.searchsorted(rows.row[order], np.arange(1, len(rows.low)))
    for entries, low, high in zip(np.split(order, ends), rows.low, rows.high, strict=True):
        weights = _whole(rows.value[entries])
        unit = max(1, int(np.gcd.reduce(weights)))
        model.add_linear_constraint(
            _weighted([variables[column] for column in rows.column[entries]], weights // unit),
            cp_model.INT_MIN if np.isneginf(low) else -(-round(low) // unit),
            round(high) // unit,
        )


def _whole(values: ArrayLike) -> Ints:
    return np.rint(np.asarray(values, dtype=np.float64)).astype(np.int64)
