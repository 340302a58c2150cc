"""Turn a query graph into loads linear in a few variables (sections 2.2 and 6.2 of paper 003).

Every stream's rate is a linear form of the variables, which initially are the rates of the input
streams. In topological order, with u and v the input rates of an operator:

- linear: load ``cost * sum(u)``, output ``selectivity * sum(u)``;
- selectivity unknown: the output is a new variable;
- join: ``window * u * v`` pairs pass per unit of time. Its output is a new variable r, its load
  ``cost / selectivity * r``. If the selectivity is 0 or unknown, the pairs are the variable.

Joins whose inputs are equal up to constant factors share one variable, which the paper does not
consider. A variable that no load and no transfer depends on is dropped, unless it is an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastream.model.checks import Number, Numbers, non_negatives
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId
from elastream.resilience.model.graph import GraphOperator, QueryGraph
from elastream.resilience.model.problem import Arc, ResilientProblem

Form = dict[str, float]
"""A linear form: the coefficient of each variable with a coefficient above 0."""

_DIGITS = 12
"""Factors that agree in this many digits are equal up to rounding."""


@dataclass(frozen=True, slots=True)
class LoadModel:
    """The loads of a graph's operators and the variables they are linear in."""

    variables: tuple[str, ...]
    """The graph's inputs first, in their order."""
    load: tuple[tuple[float, ...], ...]
    """A row for each operator, an entry for each variable."""
    arcs: tuple[Arc, ...]
    inputs: int
    """Number of variables that are rates of inputs."""
    fixed: tuple[Number, ...] = ()
    """Load of each operator at any rates."""

    def problem(
        self,
        capacity: Numbers,
        lower_bound: Numbers | None = None,
        unplaced: Sequence[Numbers] | None = None,
        *,
        tasks: Sequence[TaskId] = (),
        executors: Sequence[str] = (),
    ) -> ResilientProblem:
        """Return the problem of placing the operators.

        ``lower_bound`` and the rows of ``unplaced`` have an entry for each input, or one for each
        variable.
        """
        if lower_bound is not None:
            lower_bound = self._whole("lower_bound", lower_bound)
        if unplaced is not None:
            unplaced = [self._whole(f"unplaced[{i}]", row) for i, row in enumerate(unplaced)]
        if not any(map(any, self.load)):
            raise ProblemError(
                "graph", "no operator has any load; any placement tolerates any rates"
            )
        return ResilientProblem.of(
            self.load,
            capacity,
            lower_bound,
            self.arcs,
            fixed=self.fixed or None,
            unplaced=unplaced,
            tasks=tasks,
            executors=executors,
        )

    def _whole(self, field: str, values: Numbers) -> tuple[Number, ...]:
        """Return an entry for each variable; missing ones are 0."""
        given = non_negatives(field, values)
        if len(given) not in (self.inputs, len(self.variables)):
            needed = f"{self.inputs} inputs, {len(self.variables)} variables"
            raise ProblemError(field, f"has {len(given)} entries; there are {needed}")
        return given + (0,) * (len(self.variables) - len(given))


def linear_load(graph: QueryGraph) -> LoadModel:
    """Return the linear loads of the operators of ``graph``."""
    rates: dict[str, Form] = {name: {name: 1.0} for name in graph.inputs}
    loads: list[Form] = [{} for _ in graph.operators]
    pairs = _PairVariables({*graph.inputs, *(operator.name for operator in graph.operators)})
    for j in graph.order:
        operator = graph.operators[j]
        read = [rates[name] for name in operator.inputs]
        if operator.window is None:
            handled = _sum(read)
        else:
            sides = _sum(read[: operator.left]), _sum(read[operator.left :])
            handled = pairs.passing(operator, *sides)
        loads[j] = _scaled(handled, operator.cost)
        if operator.selectivity is None:
            rates[operator.name] = {operator.name: 1.0}
        else:
            rates[operator.name] = _scaled(handled, operator.selectivity)
    crossing = [
        (u, v, _scaled(rates[graph.operators[u].name], graph.transfer_cost)) for u, v in graph.arcs
    ]
    forms = [*loads, *(form for _, _, form in crossing)]
    used = dict.fromkeys(name for form in forms for name, value in form.items() if value)
    variables = (*graph.inputs, *(name for name in used if name not in graph.inputs))
    return LoadModel(
        variables,
        tuple(_row(form, variables) for form in loads),
        tuple(Arc(u, v, _row(form, variables)) for u, v, form in crossing),
        len(graph.inputs),
        tuple(operator.fixed for operator in graph.operators),
    )


class _PairVariables:
    """The variables for pairs of tuples, shared by all joins whose pairs are proportional."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._known: dict[object, tuple[str, float]] = {}
        """By the directions of two rates: a variable, and the divisor of their product."""

    def passing(self, join: GraphOperator, left: Form, right: Form) -> Form:
        """Return the pairs that pass through ``join`` in a unit of time."""
        sizes = sum(left.values()), sum(right.values())
        products = float(join.window or 0) * sizes[0] * sizes[1]
        if products == 0:
            return {}  # a stream that is always empty
        key = tuple(sorted((_direction(left, sizes[0]), _direction(right, sizes[1]))))
        if key not in self._known:
            if join.selectivity:
                self._known[key] = join.name, products * join.selectivity
            else:
                self._known[key] = self._free_name(join), products
        name, unit = self._known[key]
        return {name: products / unit}

    def _free_name(self, join: GraphOperator) -> str:
        name = f"pairs of {join.name}"
        while name in self._taken:
            name += "*"
        self._taken.add(name)
        return name


def _direction(form: Form, size: float) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, round(value / size, _DIGITS)) for name, value in form.items()))


def _sum(forms: list[Form]) -> Form:
    total: Form = {}
    for form in forms:
        for name, value in form.items():
            total[name] = total.get(name, 0.0) + value
    return total


def _scaled(form: Form, factor: float) -> Form:
    return {name: value * factor for name, value in form.items()} if factor else {}


def _row(form: Form, variables: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(form.get(name, 0.0) for name in variables)
