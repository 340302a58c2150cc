"""replication: what each part of the solver brings, by leaving one out at a time.

Counted are the values of tables that a proven optimum takes, which no machine and no other work on
it changes, and next to them seconds of a core. Every part but one is as it is; what is found is the
same, or the benchmark fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from elastream.model.plan import Infeasible
from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner import exact, minimise
from elastream.replication.planner.exact import replication
from elastream.replication.planner.forms import Form, limit_forms, objective_forms
from elastream.replication.planner.rent import Rent
from elastream.replication.planner.search import Search
from elastream_lab.benchmarks._counted import Counted, counted
from elastream_lab.benchmarks.replication import SEEDS, with_price
from elastream_lab.studies.replication.reference import BALANCED, made_network, reference_problem

_RATE = 220.0
_CASES = ((24, 3, 0), (24, 3, 1), (24, 3, 3), (50, 2, 0), (50, 2, 1))
"""Nodes, replicas of an operator, and the price of a node."""
_EFFORT = 3e9
"""Some twenty seconds of a core: whoever takes more has not finished."""


def run() -> None:
    """Print the table."""
    cases = {
        f"{nodes}, {replicas}" + (f", price {price}" if price else ""): _problems(
            nodes, replicas, price
        )
        for nodes, replicas, price in _CASES
    }
    table = Table(title=f"values in millions (CPU s), sums of {len(SEEDS)} networks")
    table.add_column("left out")
    for name in cases:
        table.add_column(name, justify="right")
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("solving", total=len(_PARTS) * len(cases))
        known: dict[str, list[float]] = {}
        for part, left_out in _PARTS.items():
            row = []
            for name, problems in cases.items():
                with left_out():
                    solved = [counted(problem, _EFFORT) for problem in problems]
                row.append(
                    _cell(solved, known.setdefault(name, [s.plan.objective for s in solved]))
                )
                bar.advance(task)
            table.add_row(part, *row)
    Console().print(table)


def _cell(solved: list[Counted], known: list[float]) -> str:
    proven = sum(each.proven for each in solved)
    for each, objective in zip(solved, known, strict=True):
        assert not each.proven or abs(each.plan.objective - objective) <= 1e-9 * objective
    cell = f"{sum(s.values for s in solved) / 1e6:.0f} ({sum(s.seconds for s in solved):.1f})"
    return cell if proven == len(solved) else f"{cell}, {proven} of {len(solved)} proven"


def _problems(nodes: int, replicas: int, price: float) -> list[ReplicationProblem]:
    problems = []
    for seed in SEEDS:
        setting = made_network(nodes, replicas, seed=seed)
        before = replication(reference_problem(setting, 0.6 * _RATE))
        assert not isinstance(before, Infeasible), before.reason
        current = before.deployment
        problem = reference_problem(setting, _RATE, weights=BALANCED, current=current)
        problems.append(with_price(problem, price) if price else problem)
    return problems


def _set(where: Any, name: str, what: object) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(where, name, what)


def _unchanged(_work: object, instance: Any) -> Any:
    return instance


def _nothing_ruled_out(_work: object, instance: Any, *_: object) -> Any:
    return instance.fitted()


@contextmanager
def _nothing_drawn() -> Iterator[None]:
    work = minimise._Work
    with (
        patch.object(work, "drawn", work.below_beam),
        patch.object(work, "drawn_within_limits", _unchanged),
    ):
        yield


def _every_form() -> AbstractContextManager[Any]:
    return patch.object(
        minimise, "_most_useful_first", lambda forms, _found: (list(range(forms)), forms)
    )


@contextmanager
def _no_shares() -> Iterator[None]:
    def objective(*about: Any) -> list[Form]:
        return [form for form in objective_forms(*about) if not form.rent]

    def limits(*about: Any, below: float) -> list[Form]:
        return [form for form in limit_forms(*about, below=below) if not form.rent]

    with (
        patch.object(minimise, "objective_forms", objective),
        patch.object(minimise, "limit_forms", limits),
    ):
        yield


_PARTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "nothing": nullcontext,
    "one replica drawn of every operator": _nothing_drawn,
    "dropping forms that never bound best": _every_form,
    "the best form alone at first": _set(minimise._Work, "relaxed_by_one", _unchanged),
    "more than one mix of paths": _set(
        minimise, "objective_forms", lambda *about: objective_forms(*about)[:1]
    ),
    "forms of the bounds": _set(minimise, "limit_forms", lambda *_, **__: []),
    "ruling out again and again": _set(minimise, "_WORTHWHILE", 0.0),
    "ruling configurations out at all": _set(minimise._Work, "pruned", _nothing_ruled_out),
    "beginning with the current deployment": _set(exact, "_current_rows", lambda *_: None),
    "beam search for a first deployment": _set(Search, "beam", lambda *_: None),
    "rent by shares of nodes": _no_shares,
    "nodes that others will need": _set(
        Rent, "least", lambda rent, _rest, occupied, _used: rent.paid(occupied)
    ),
}
