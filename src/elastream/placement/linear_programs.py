"""Linear and integer programs, solved by HiGHS.

The model is ``minimise cost @ x`` such that ``least <= A x <= most`` and ``lower <= x <= upper``.
A is sparse and comes as :class:`Rows`. HiGHS runs on one thread and its effort is limited by
counts, so equal programs have equal answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import highspy


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Constraints ``least <= A x <= most``. A is given by its entries, in any order."""

    row: Ints
    """The row of each entry."""
    column: Ints
    """The column of each entry."""
    value: Floats
    """The coefficients; those of the same row and column are summed."""
    least: Floats
    most: Floats

    @classmethod
    def of(
        cls, row: ArrayLike, column: ArrayLike, value: ArrayLike, least: ArrayLike, most: ArrayLike
    ) -> Rows:
        """Return constraints. One value serves all entries, one limit serves all rows of ``most``.

        ``most`` has one number for each row.
        """
        rows = np.asarray(row, dtype=np.int64)
        limits = np.asarray(most, dtype=np.float64)
        return cls(
            rows,
            np.asarray(column, dtype=np.int64),
            np.broadcast_to(np.asarray(value, dtype=np.float64), rows.shape),
            np.broadcast_to(np.asarray(least, dtype=np.float64), limits.shape),
            limits,
        )

    def __add__(self, below: Rows) -> Rows:
        """Return these rows, then the others."""
        return Rows(
            np.concatenate([self.row, len(self.most) + below.row]),
            np.concatenate([self.column, below.column]),
            np.concatenate([self.value, below.value]),
            np.concatenate([self.least, below.least]),
            np.concatenate([self.most, below.most]),
        )

    def by_column(self, columns: int) -> tuple[Ints, Ints, Floats]:
        """Return A by columns: where each starts, then row and coefficient of its entries."""
        place, index = np.unique(self.column * len(self.most) + self.row, return_inverse=True)
        value = np.bincount(index, self.value, minlength=len(place)).astype(np.float64)
        place, value = place[value != 0], value[value != 0]
        column, row = np.divmod(place, max(1, len(self.most)))
        return np.searchsorted(column, np.arange(columns + 1)), row, value


@dataclass(frozen=True, slots=True, eq=False)
class LinearSolution:
    """The optimum of a linear program."""

    x: Floats
    cost: float
    row_dual: Floats
    """Increase of the cost with the limit of each row."""
    upper_dual: Floats
    """Increase of the cost with the upper limit of each variable; never positive."""
    iterations: int


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSolution:
    """Outcome of an integer program."""

    x: Floats | None
    """The best solution found."""
    bound: float
    """No solution costs less; infinite if there is none."""
    proven: bool
    """Whether ``x`` is optimal within the allowed gap, or there is no solution."""

    @property
    def infeasible(self) -> bool:
        """Whether it is proven that there is no solution."""
        return self.proven and self.x is None


def linear_program(
    cost: Floats,
    upper: Floats,
    rows: Rows,
    *,
    presolve: bool = True,
    iterations: int | None = None,
) -> LinearSolution | None:
    """Solve by the dual simplex method, all variables at least 0.

    ``None`` if there is no optimum, or if it takes more ``iterations``.
    """
    import highspy

    options: dict[str, Any] = {"solver": "simplex", "presolve": "on" if presolve else "off"}
    if iterations is not None:
        options["simplex_iteration_limit"] = iterations
    highs = _solved(cost, np.zeros(len(cost)), upper, rows, None, options)
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution, info = highs.getSolution(), highs.getInfo()
    return LinearSolution(
        np.array(solution.col_value),
        float(info.objective_function_value),
        np.array(solution.row_dual),
        np.minimum(np.array(solution.col_dual), 0.0),
        int(info.simplex_iteration_count),
    )


def integer_program(
    cost: Floats,
    rows: Rows,
    *,
    lower: Floats | None = None,
    upper: Floats | None = None,
    whole: NDArray[np.bool_] | None = None,
    branches: int,
    gap: float = 0.0,
) -> IntegerSolution:
    """Solve within this number of ``branches``, up to a relative ``gap``.

    Variables are from 0 to 1 and ``whole`` unless given otherwise.
    """
    import highspy

    highs = _solved(
        cost,
        np.zeros(len(cost)) if lower is None else lower,
        np.ones(len(cost)) if upper is None else upper,
        rows,
        np.ones(len(cost), dtype=np.bool_) if whole is None else whole,
        {"mip_max_nodes": branches, "mip_rel_gap": gap},
    )
    status, info = highs.getModelStatus(), highs.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return IntegerSolution(None, np.inf, True)
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return IntegerSolution(
        np.array(highs.getSolution().col_value) if found else None,
        float(info.mip_dual_bound),
        status == highspy.HighsModelStatus.kOptimal,
    )


def _solved(
    cost: Floats,
    lower: Floats,
    upper: Floats,
    rows: Rows,
    whole: NDArray[np.bool_] | None,
    options: dict[str, Any],
) -> highspy.Highs:
    """Return HiGHS after it has run."""
    import highspy

    start, row, value = rows.by_column(len(cost))
    lp = highspy.HighsLp()
    lp.num_col_ = lp.a_matrix_.num_col_ = len(cost)
    lp.num_row_ = lp.a_matrix_.num_row_ = len(rows.most)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, lower, upper
    lp.row_lower_, lp.row_upper_ = rows.least, rows.most
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = start, row, value
    if whole is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[each] for each in whole.tolist()]
    highs = highspy.Highs()
    for name, setting in {"output_flag": False, "parallel": "off", **options}.items():
        highs.setOptionValue(name, setting)
    highs.passModel(lp)
    highs.run()
    return highs
