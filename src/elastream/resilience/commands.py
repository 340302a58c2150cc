"""``elastream plan resilient``: place operators once so that bursts need no move."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from elastream.cli.plan.printing import ProblemFile, print_plan, refuse
from elastream.cli.problem_files import Fields, expect_fields, read_fields
from elastream.model.checks import abbreviate, count
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId
from elastream.model.plan import Infeasible
from elastream.resilience.model.graph import GraphOperator, QueryGraph
from elastream.resilience.model.problem import ResilientProblem

if TYPE_CHECKING:
    from elastream.resilience.model.problem import FeasibleSet, ResilientPlan
    from elastream.resilience.planner.load_model import LoadModel


class MethodName(StrEnum):
    """The methods, as written on the command line."""

    REFINED = "refined"
    ROD = "rod"


_NAMES: Final = ("tasks", "executors")
_METHOD = typer.Option("--method", help="ROD as in the paper, or refined by exchanges.")
_DRAW = typer.Option("--draw", help="Also draw the plan for people, on standard error.")


def resilient(
    file: ProblemFile,
    method: Annotated[MethodName, _METHOD] = MethodName.REFINED,
    draw: Annotated[bool, _DRAW] = False,
) -> None:
    """Place operators so that most input rates are feasible.

    Fields: load (a row for each operator, CPU cycles per unit of each input stream), capacity (of
    each node), lower_bound (the lowest value of each rate; optional), fixed (the load of each
    operator at any rates; optional), unplaced (a row for each node, its load wherever operators
    are; optional). Instead of load there may be a graph with inputs, operators and transfer_cost.
    tasks and executors, which a measured problem has, name operators and nodes; the plan repeats
    them.
    """
    from elastream.resilience.planner.planner import resilient as planner

    problem, model = resilient_problem(read_fields(file))
    plan = planner(problem, method.value)
    if isinstance(plan, Infeasible):
        refuse(plan)
    if draw:
        _draw(plan, model)
    fields: dict[str, object] = {
        "status": plan.status,
        "allocation": plan.allocation,
        "feasible_ratio": plan.feasible.ratio,
        "plane_distance": plan.feasible.plane_distance,
        "weights": plan.weights,
    }
    if model is not None:
        fields |= {"variables": model.variables, "load": model.load}
    if plan.with_transfer is not None:
        borne = plan.with_transfer
        fields["with_transfer"] = {
            "feasible_ratio": borne.ratio,
            "plane_distance": borne.plane_distance,
        }
    if plan.tasks:
        fields["tasks"] = [task._asdict() for task in plan.tasks]
    if plan.executors:
        fields["executors"] = plan.executors
    print_plan(fields)


def resilient_problem(data: Fields) -> tuple[ResilientProblem, LoadModel | None]:
    """Return the problem, and the load model if the file has a graph."""
    if "graph" not in data:
        may_be = ("lower_bound", "graph", "fixed", "unplaced", *_NAMES)
        expect_fields("", data, required=("load", "capacity"), optional=may_be)
        problem = ResilientProblem.of(
            data["load"],
            data["capacity"],
            _optional_list(data, "lower_bound"),
            fixed=_optional_list(data, "fixed"),
            unplaced=_optional_list(data, "unplaced"),
            tasks=_tasks(data),
            executors=_executors(data),
        )
        return problem, None
    if "load" in data:
        raise ProblemError("graph", "replaces load; give only one of them")
    from elastream.resilience.planner.load_model import linear_load

    optional = ("lower_bound", "unplaced", *_NAMES)
    expect_fields("", data, required=("graph", "capacity"), optional=optional)
    model = linear_load(_graph(data["graph"]))
    least, unplaced = _optional_list(data, "lower_bound"), _optional_list(data, "unplaced")
    tasks, executors = _tasks(data), _executors(data)
    problem = model.problem(data["capacity"], least, unplaced, tasks=tasks, executors=executors)
    return problem, model


def _graph(data: object) -> QueryGraph:
    if not isinstance(data, dict):
        raise ProblemError("graph", f"{abbreviate(data)} is not an object")
    expect_fields("graph.", data, required=("inputs", "operators"), optional=("transfer_cost",))
    entries = data["operators"]
    if not isinstance(entries, list):
        raise ProblemError("graph.operators", f"{abbreviate(entries)} is not a list")
    operators = [_operator(f"graph.operators[{j}]", entry) for j, entry in enumerate(entries)]
    return QueryGraph.of(data["inputs"], operators, data.get("transfer_cost", 0), field="graph.")


def _operator(field: str, data: object) -> GraphOperator:
    if not isinstance(data, dict):
        raise ProblemError(field, f"{abbreviate(data)} is not an object")
    required = ("name", "inputs", "cost", "selectivity")
    expect_fields(
        f"{field}.", data, required=required, optional=("kind", "window", "fixed", "left")
    )
    return GraphOperator.of(
        data["name"],
        data["inputs"],
        data["cost"],
        data["selectivity"],
        kind=data.get("kind", "linear"),
        window=data.get("window"),
        fixed=data.get("fixed", 0),
        left=data.get("left"),
        field=f"{field}.",
    )


def _optional_list(data: Fields, field: str) -> list[Any] | None:
    """Return the list or None if the field is left out; a null is rejected."""
    if field not in data:
        return None
    if not isinstance(data[field], list):
        raise ProblemError(field, f"{abbreviate(data[field])} is not a list")
    values: list[Any] = data[field]
    return values


def _tasks(data: Fields) -> list[TaskId]:
    return [
        _task(f"tasks[{j}]", entry) for j, entry in enumerate(_optional_list(data, "tasks") or ())
    ]


def _task(field: str, data: object) -> TaskId:
    if not isinstance(data, dict):
        raise ProblemError(field, f"{abbreviate(data)} is not an object")
    expect_fields(f"{field}.", data, required=TaskId._fields)
    return TaskId(
        _name(f"{field}.query", data["query"]),
        count(f"{field}.operator", data["operator"]),
        count(f"{field}.partition", data["partition"]),
    )


def _executors(data: Fields) -> list[str]:
    names = _optional_list(data, "executors") or ()
    return [_name(f"executors[{i}]", name) for i, name in enumerate(names)]


def _name(field: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ProblemError(field, f"{abbreviate(name)} is not a name")
    return name


def _draw(plan: ResilientPlan, model: LoadModel | None) -> None:
    from rich.table import Table

    from elastream.cli.screen import Screen

    streams = range(len(plan.weights[0]))
    names = model.variables if model is not None else [f"stream {k}" for k in streams]
    table = Table(title=_title(plan.borne), caption="weights: share of the load over share of CPU")
    table.add_column("node", justify="right")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("operators")
    for node, row in enumerate(plan.weights):
        held_here = [str(j) for j, place in enumerate(plan.allocation) if place == node]
        table.add_row(str(node), *(f"{weight:.3f}" for weight in row), " ".join(held_here))
    Screen(stderr=True).print(table)


def _title(borne: FeasibleSet) -> str:
    return (
        f"bears {borne.ratio:.4f} ± {borne.standard_error:.1g} of the ideal set, "
        f"plane distance {borne.plane_distance:.4f}"
    )
