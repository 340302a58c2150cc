"""free-step, sequence and replication next to CP-SAT of OR-tools, which gets a plain model of each.

Each side of each row has a process of its own, one core and a limit on its effort that is counted,
not timed. CPU seconds are those after all is imported and compiled; the memory is the most that the
process has held. Where both prove their plan the least, they must agree.

OR-tools is not a dependency: ``pip install ortools``, or the lab's extra ``cp-sat``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible
from elastream.placement.free_step.planner import free_step
from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner.exact import replication
from elastream_lab.benchmarks._problems import skewed, skewed_sequence
from elastream_lab.studies.replication.reference import BALANCED, made_network, reference_problem

Problem: TypeAlias = StepProblem | SequenceProblem | ReplicationProblem
Found: TypeAlias = tuple[float, bool] | None
"""The least cost, and whether it is proven; None where there is no plan."""
Side: TypeAlias = Callable[[Problem], Callable[[Problem], Found]]
"""Makes all ready for a problem and returns what solves it."""

STEPS = [(64, 12, 16, 0.2), (64, 12, 16, 0.05), (64, 16, 12, 0.05), (1_000, 45, 50, 0.05)]
"""Tasks, nodes before and after, and the threshold."""
SEQUENCES = [(20, (2, 3, 4, 5), 0.4), (20, (6, 4, 6, 3), 0.4)]
"""Tasks, node counts from the current one on, and the threshold."""
NETWORKS = [(8, 150.0, False), (24, 220.0, True)]
"""Nodes, tuples a second, and whether the problem is restricted."""
REPLICAS = 2
TOLERANCE = 1e-6
"""How far two proven costs may be apart: bytes of state, or the objective of replication."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a side found, and what that took."""

    found: Found
    cpu_s: float
    peak_mb: float

    def __str__(self) -> str:
        seconds = f"{self.cpu_s:.0f}" if self.cpu_s >= 10 else f"{self.cpu_s:.2g}"
        taken = f"{seconds} s, {self.peak_mb:.0f} MB"
        if self.found is None:
            return f"no plan in {taken}"
        return taken if self.found[1] else f"not proven in {taken}"


def run() -> None:
    """Print the table, or what is missing."""
    if find_spec("ortools") is None:
        print("cp_sat: needs ortools, which is not a dependency: pip install ortools")
        return
    table = Table(title="CPU time to a proven optimum, and the memory it takes; one worker")
    for column in ("problem", "least cost", "elastream", f"CP-SAT {version('ortools')}"):
        table.add_column(column, justify="left" if column == "problem" else "right")
    for name, problem in _problems():
        ours, theirs = _alone(_ours, problem), _alone(_theirs, problem)
        table.add_row(name, _cost(problem, ours, theirs), str(ours), str(theirs))
    Console(width=120).print(table)


def _problems() -> Iterator[tuple[str, Problem]]:
    for tasks, before, after, tau in STEPS:
        name = f"free-step, {tasks:,} tasks, {before} → {after} nodes, tau {tau}"
        yield name, skewed(tasks, before, after, tau)
    for tasks, nodes, tau in SEQUENCES:
        name = f"sequence, {tasks} tasks, {' → '.join(map(str, nodes))} nodes, tau {tau}"
        yield name, skewed_sequence(tasks, nodes, tau)
    for places, rate, restricted in NETWORKS:
        kind = "restricted" if restricted else "moved"
        name = f"replication, {places} nodes, {REPLICAS} replicas, {kind}"
        yield name, _moved(places, rate, restricted=restricted)


def _moved(places: int, rate: float, *, restricted: bool) -> ReplicationProblem:
    """Return the reference application, deployed for less than it now gets."""
    setting = made_network(places, REPLICAS)
    before = replication(reference_problem(setting, 0.6 * rate))
    assert not isinstance(before, Infeasible), before.reason
    return reference_problem(
        setting, rate, weights=BALANCED, current=before.deployment, restricted=restricted
    )


def _alone(side: Side, problem: Problem) -> Measured:
    """Return what a side measures in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measured, side, problem).result()


def _measured(side: Side, problem: Problem) -> Measured:
    solve = side(problem)
    began = time.process_time()
    found = solve(problem)
    return Measured(found, time.process_time() - began, _peak_mb())


def _peak_mb() -> float:
    """Return the most that this process has held; what ``getrusage`` says counts its parent too."""
    status = Path("/proc/self/status").read_text()
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak_kb) * 1024 / 1e6


def _ours(problem: Problem) -> Callable[[Problem], Found]:
    """Return the planner; an equal problem has compiled what it needs."""
    _planned(replace(problem))
    return _planned


def _planned(problem: Problem) -> Found:
    if isinstance(problem, ReplicationProblem):
        deployed = replication(problem)
        assert not isinstance(deployed, Infeasible), deployed.reason
        return deployed.objective, deployed.status == "optimal"
    plan = free_step(problem) if isinstance(problem, StepProblem) else sequence(problem)
    assert not isinstance(plan, Infeasible), plan.reason
    return float(plan.cost), plan.status == "optimal"


def _theirs(_: Problem) -> Callable[[Problem], Found]:
    """Return CP-SAT, imported; it compiles nothing."""
    from elastream_lab.benchmarks._cp_sat_models import by_cp_sat

    return by_cp_sat


def _cost(problem: Problem, ours: Measured, theirs: Measured) -> str:
    """Return the least cost, on which both sides agree where both have proven theirs."""
    assert ours.found is not None
    cost, proven = ours.found
    if theirs.found is not None and proven and theirs.found[1]:
        assert abs(cost - theirs.found[0]) <= TOLERANCE, (cost, theirs.found)
    if isinstance(problem, ReplicationProblem):
        return f"{cost:.6f}"
    return f"{cost / sum(problem.state):.2%}"
