"""sequence: how far optima are proven, and how the planner compares with two other ways.

Every plan passes the certificate, and all ways must agree on the cost.
"""

from __future__ import annotations

import time
from itertools import cycle, islice

from rich.console import Console
from rich.table import Table

from elastream.foresight.oms.planner import EFFORT, sequence
from elastream.foresight.oms.problem import SequencePlan, SequenceProblem, certify_sequence
from elastream.model.migration import exact_sum
from elastream.model.plan import Infeasible
from elastream_lab.benchmarks._problems import skewed_sequence
from elastream_lab.benchmarks._sequence_rivals import by_milp, count_of_cuts, enumerated

Nodes = tuple[int, ...]

TAUS = (0.2, 0.4, 0.8, 1.2)
REACH: list[tuple[int, Nodes, tuple[float, ...]]] = [
    (20, (2, 3, 4), TAUS),
    (20, (2, 3, 4, 5), TAUS),
    (20, (6, 4, 6, 3), TAUS),
    (64, (8, 10, 12), TAUS),
    (64, (8, 16, 9, 14, 10, 15, 8), TAUS),
    (64, (8, *islice(cycle((13, 9, 16, 11, 14, 8)), 24)), (0.2, 0.4)),
    (256, (8, 10, 12), (0.2, 0.4)),
    (256, (8, 16, 9, 14, 10), (0.2, 0.4)),
    (1000, (64, 80, 72, 90), (0.2,)),
    (1000, (8, 10, 12), (0.2,)),
]
"""Tasks, node counts from the current one on, and thresholds."""
RIVALS: list[tuple[int, Nodes, float]] = [
    (20, (2, 3, 4, 5), 0.4),
    (20, (6, 4, 6, 3), 0.4),
    (20, (6, 4, 6, 3), 0.8),
    (20, (6, 4, 6, 3), 1.2),
    (32, (4, 6, 5, 7), 0.4),
    (64, (8, 10, 12), 0.2),
    (64, (8, 10, 12, 9), 0.4),
    (64, (8, 16, 9, 14, 10, 15, 8), 0.4),
    (128, (8, 10, 12), 0.2),
]
MOST_CUTS = 30_000
MILP_TIME_LIMIT_S = 60.0


def run() -> None:
    """Print the tables."""
    console = Console()
    console.print(_reach())
    console.print(_rivals())


def _planned(problem: SequenceProblem, effort: float = EFFORT) -> SequencePlan | Infeasible:
    plan = sequence(problem, effort=effort)
    if isinstance(plan, SequencePlan):
        assert certify_sequence(problem, plan).faults == ()
    return plan


def _reach() -> Table:
    table = Table(title="sequence, effort of 3.6e9 cells; state moved in % of all state, all steps")
    for column in ("m", "nodes", "tau", "single steps", "sequence", "gap", "status", "seconds"):
        table.add_column(column, justify="right")
    for tasks, nodes, taus in REACH:
        shown = "→".join(map(str, nodes)) if len(nodes) < 10 else f"{len(nodes) - 1} migrations"
        for tau in taus:
            problem = skewed_sequence(tasks, nodes, tau)
            greedy = _planned(problem, 0)
            started = time.perf_counter()
            plan = _planned(problem)
            taken = time.perf_counter() - started
            if isinstance(plan, Infeasible) or isinstance(greedy, Infeasible):
                table.add_row(str(tasks), shown, str(tau), "", "", "", "cannot fit", "")
                continue
            total = exact_sum(problem.state)
            gap = (plan.cost - plan.lower_bound) / plan.cost if plan.cost else 0
            table.add_row(
                str(tasks), shown, str(tau), f"{greedy.cost / total:.2%}",
                f"{plan.cost / total:.2%}", f"{gap:.2%}", plan.status, f"{taken:.2f}",
            )  # fmt: skip
    return table


def _rivals() -> Table:
    table = Table(title=f"seconds to a proven optimum; MILP up to {MILP_TIME_LIMIT_S:.0f} s")
    for column in ("m", "nodes", "tau", "cuts", "sequence", "all cuts (OMS)", "MILP (HiGHS)"):
        table.add_column(column, justify="right")
    for tasks, nodes, tau in RIVALS:
        problem = skewed_sequence(tasks, nodes, tau)
        started = time.perf_counter()
        plan = _planned(problem)
        ours = time.perf_counter() - started
        assert isinstance(plan, SequencePlan)
        cuts = count_of_cuts(problem)
        table.add_row(
            str(tasks), "→".join(map(str, nodes)), str(tau), f"{cuts:,}", f"{ours:.2f}",
            _by_enumeration(problem, cuts, plan), _by_milp(problem, plan),
        )  # fmt: skip
    return table


def _by_enumeration(problem: SequenceProblem, cuts: int, plan: SequencePlan) -> str:
    if cuts > MOST_CUTS:
        return "not tried"
    started = time.perf_counter()
    cost = enumerated(problem)
    taken = time.perf_counter() - started
    assert cost == plan.cost
    return f"{taken:.2f}"


def _by_milp(problem: SequenceProblem, plan: SequencePlan) -> str:
    started = time.perf_counter()
    cost, bound = by_milp(problem, time_limit_s=MILP_TIME_LIMIT_S)
    taken = time.perf_counter() - started
    assert plan.cost <= cost * (1 + 1e-6)
    assert bound <= plan.cost * (1 + 1e-6)
    if taken < MILP_TIME_LIMIT_S:
        return f"{taken:.2f}"
    return f"stopped, gap {(cost - bound) / cost:.1%}"
