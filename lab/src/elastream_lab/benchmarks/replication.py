"""replication: proven optima of the reference application, compared with the generic program."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

from rich.console import Console
from rich.table import Table

from elastream.model.plan import Infeasible
from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner.exact import replication
from elastream.replication.planner.instance import instance_of
from elastream_lab.studies.replication.milp import replication_milp, variables
from elastream_lab.studies.replication.reference import BALANCED, made_network, reference_problem

SEEDS = range(3)
MILP_TIME_LIMIT_S = 120.0
MILP_VARIABLES = 600_000
"""Larger programs take gigabytes to write down; they are not tried."""


@dataclass(frozen=True, slots=True)
class NetworkSize:
    """A network, a degree of replication, and the seconds it may take."""

    nodes: int
    max_replicas: int
    restricted: bool
    target_s: float | None
    rate: float = 220.0


SIZES = (
    NetworkSize(8, 2, False, None, rate=150.0),
    NetworkSize(24, 2, False, 1),
    NetworkSize(24, 3, False, 1),
    NetworkSize(50, 2, False, 1),
    NetworkSize(24, 4, False, None),
    NetworkSize(24, 2, True, 1),
    NetworkSize(24, 4, True, 1),
)


def run() -> None:
    """Print the table."""
    console = Console()
    table = Table(title=f"replication, seconds to a proven optimum, worst of {len(SEEDS)} networks")
    columns = (
        "problem", "nodes", "k", "first", "moved", "priced", "target", "HiGHS, paper's program",
    )  # fmt: skip
    for column in columns:
        table.add_column(column, justify="right")
    for size in SIZES:
        first, moved, priced = [], [], []
        for seed in SEEDS:
            setting = made_network(size.nodes, size.max_replicas, seed=seed)
            before = replication(reference_problem(setting, 0.6 * size.rate))
            assert not isinstance(before, Infeasible), before.reason
            if not size.restricted:
                first.append(_seconds(reference_problem(setting, size.rate)))
            problem = reference_problem(
                setting,
                size.rate,
                weights=BALANCED,
                current=before.deployment,
                restricted=size.restricted,
            )
            moved.append(_seconds(problem))
            priced.append(_seconds(with_price(problem, 1)))
        table.add_row(
            "rEDRP" if size.restricted else "EDRP",
            str(size.nodes),
            str(size.max_replicas),
            f"{max(first):.2f}" if first else "",
            f"{max(moved):.2f}",
            f"{max(priced):.2f}",
            "" if size.target_s is None else f"{size.target_s:g}",
            _milp(problem),
        )
    console.print(table)


def with_price(problem: ReplicationProblem, price: float) -> ReplicationProblem:
    """Return the problem with the same price for every node in use."""
    return replace(problem, nodes=tuple(replace(node, price=price) for node in problem.nodes))


def _seconds(problem: ReplicationProblem) -> float:
    began = time.perf_counter()
    plan = replication(problem)
    took = time.perf_counter() - began
    assert not isinstance(plan, Infeasible), plan.reason
    assert plan.status == "optimal"
    return took


def _milp(problem: ReplicationProblem) -> str:
    instance = instance_of(problem)
    assert not isinstance(instance, Infeasible), instance.reason
    size = variables(instance)
    if size > MILP_VARIABLES:
        return f"not tried, {size / 1e6:.1f} million variables"
    program, took = _program(problem)
    plan = replication(problem)
    if program is None or isinstance(program, Infeasible) or isinstance(plan, Infeasible):
        return f"nothing in {took:.0f} s"
    assert plan.objective <= program.objective + 1e-6
    if program.status != "optimal":
        return f"not proven in {took:.0f} s"
    assert abs(plan.objective - program.objective) <= 1e-6
    return f"{took:.2f}"


def _program(problem: ReplicationProblem) -> tuple[ReplicationPlan | Infeasible | None, float]:
    """Return what HiGHS found, and its seconds.

    In a process of its own: a program this large keeps it from looking at the clock for minutes.
    """
    receiver, sender = Pipe(duplex=False)
    process = Process(target=_solve, args=(sender, problem), daemon=True)
    began = time.perf_counter()
    process.start()
    found = receiver.recv() if receiver.poll(1.5 * MILP_TIME_LIMIT_S) else None
    took = time.perf_counter() - began
    process.kill()
    process.join()
    return found, took


def _solve(sender: Connection, problem: ReplicationProblem) -> None:
    sender.send(replication_milp(problem, time_limit_s=MILP_TIME_LIMIT_S))
