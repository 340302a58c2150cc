"""``elastream plan free-ahead``: least state moved, now and later, on any nodes."""

from __future__ import annotations

from elastream.cli.plan.printing import ProblemFile, moves_of, print_plan, refuse
from elastream.cli.problem_files import Fields, expect_fields, read_fields, step_problem
from elastream.foresight.ahead.problem import FreeAheadProblem, Future, PastWork
from elastream.foresight.commands.sequence import objects_of, targets_of
from elastream.foresight.commands.transition import STEP_FIELDS, chain_of
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible


def free_ahead(file: ProblemFile) -> None:
    """Least expected state moved, now and later; any tasks on a node.

    A node may hold any tasks, as on Spark.

    The problem is free-step's with what may follow: a "chain" as for transition, or "futures":
    [{"odds": 1, "targets": [{"nodes": 3, "tau": 0.4}, ...]}, ...] and "gamma", a schedule being
    one future. Of few tasks all placements are valued, and the plan is optimal; else many are
    followed through sampled futures. "most_cost" bounds what is moved now, "least_total" is below
    what any plan moves now and later.

      elastream plan free-ahead problem.json
    """
    from elastream.foresight.ahead.bound import least_total
    from elastream.foresight.ahead.futures import LookAhead
    from elastream.foresight.ahead.planner import free_ahead as planner

    problem = free_ahead_problem(read_fields(file))
    plan = planner(problem)
    if isinstance(plan, Infeasible):
        refuse(plan)
    step, total = plan.step, float(plan.step.cost) + problem.gamma * plan.projected
    if plan.status == "optimal":
        least, error = total, 0.0
    else:
        least, error = least_total(problem, LookAhead(), step.lower_bound)
    print_plan(
        {
            "status": plan.status,
            "cost": step.cost,
            "nodes_of_tasks": step.assignment.nodes_of_tasks,
            "moves": moves_of(step),
            "limit": step.limit,
            "max_load": step.max_load,
            "projected": plan.projected,
            "standard_error": plan.standard_error,
            "free_step_cost": plan.free_cost,
            "most_cost": plan.most_cost,
            "total": total,
            "least_total": min(least, total),
            "least_total_standard_error": error,
            "looked_at": plan.looked_at,
        }
    )


def free_ahead_problem(data: Fields) -> FreeAheadProblem:
    """Return the problem: free-step's fields, and a chain or futures."""
    optional = ("chain", "direction", "past", "futures", "gamma")
    expect_fields("", data, required=STEP_FIELDS, optional=optional)
    step = step_problem({name: data[name] for name in STEP_FIELDS})
    if ("chain" in data) == ("futures" in data):
        raise ProblemError("chain", "or futures must say what may follow: give one of the two")
    if "chain" in data:
        _expect_none(data, ("gamma",), "a chain has a gamma of its own")
        past = _past(data.get("past", []))
        return FreeAheadProblem.of_chain(step, chain_of(data["chain"]), data.get("direction"), past)
    _expect_none(data, ("direction", "past"), "is for a chain")
    return FreeAheadProblem.of_futures(step, _futures(data["futures"]), data.get("gamma", 1))


def _expect_none(data: Fields, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if name in data:
            raise ProblemError(name, why)


def _futures(listed: object) -> list[Future]:
    found = []
    for field, future in objects_of("futures", listed):
        expect_fields(f"{field}.", future, required=("odds", "targets"))
        targets = targets_of(f"{field}.targets", future["targets"])
        found.append(Future.of(future["odds"], targets, f"{field}."))
    return found


def _past(listed: object) -> list[PastWork]:
    found = []
    for field, past in objects_of("past", listed):
        expect_fields(f"{field}.", past, required=("nodes", "work"))
        found.append(PastWork(past["nodes"], past["work"]))
    return found
