from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from elastream.placement.linear_programs import Rows, integer_program, linear_program

Case = tuple[np.ndarray, np.ndarray, np.ndarray]
cases = st.builds(
    lambda rows, columns, seed: _drawn(rows, columns, seed),
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(0, 10**6),
)


def _drawn(rows: int, columns: int, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-3, 4, (rows, columns)).astype(float)
    return rng.integers(-5, 6, columns).astype(float), matrix, rng.integers(-2, 6, rows) * 1.0


def rows_of(matrix: np.ndarray, least: np.ndarray | float, most: np.ndarray) -> Rows:
    row, column = np.indices(matrix.shape).reshape(2, -1)
    return Rows.of(row, column, matrix.ravel(), least, most)


@settings(max_examples=60)
@given(cases)
def test_a_linear_program_costs_what_scipys_does_and_has_valid_prices(case: Case) -> None:
    cost, matrix, most = case
    upper = np.full(len(cost), 4.0)
    found = linear_program(cost, upper, rows_of(matrix, -np.inf, most))
    theirs = linprog(cost, A_ub=matrix, b_ub=most, bounds=(0, 4))
    assert (found is None) == (theirs.status != 0)
    if found is not None:
        assert found.cost == pytest.approx(theirs.fun, abs=1e-7)
        assert (found.row_dual <= 1e-9).all()
        assert (found.upper_dual <= 0).all()
        proven = found.row_dual @ most + found.upper_dual @ upper
        assert proven == pytest.approx(found.cost, abs=1e-6), "strong duality"


@settings(max_examples=60)
@given(cases)
def test_an_integer_program_costs_what_scipys_does(case: Case) -> None:
    cost, matrix, most = case
    found = integer_program(cost, rows_of(matrix, -np.inf, most), branches=1000)
    theirs = milp(
        cost,
        integrality=np.ones(len(cost), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, -np.inf, most),
    )
    assert found.proven
    assert found.infeasible == (theirs.status == 2)
    if found.x is not None:
        assert cost @ found.x == pytest.approx(theirs.fun)
        assert found.bound == pytest.approx(theirs.fun)


def test_variables_may_be_any_number_within_their_limits() -> None:
    found = integer_program(
        np.array([1.0, 1.0]),
        Rows.of([0, 0], [0, 1], 1, 3.5, [np.inf]),
        lower=np.array([0.0, 0.25]),
        upper=np.array([9.0, 9.0]),
        whole=np.array([True, False]),
        branches=100,
    )
    assert found.x is not None
    assert found.x.sum() == pytest.approx(3.5)
    assert found.x[0] == round(found.x[0])


def test_coefficients_of_the_same_place_are_summed() -> None:
    rows = Rows.of([0, 1, 0, 1], [1, 0, 1, 0], [2.0, 1.0, 3.0, -1.0], 0, [1, 1])
    starts, row, value = rows.by_column(2)
    assert (starts.tolist(), row.tolist(), value.tolist()) == ([0, 0, 1], [0], [5.0])


def test_a_limit_on_iterations_and_on_branches_ends_the_search() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.integers(1, 100, (20, 60)).astype(float)
    cost, rows = -rng.random(60), rows_of(matrix, -np.inf, matrix.sum(axis=1) / 2)
    assert linear_program(cost, np.ones(60), rows, presolve=False, iterations=2) is None
    found = integer_program(cost, rows, branches=1)
    assert not found.proven
    assert found.x is not None
    assert found.bound <= cost @ found.x
