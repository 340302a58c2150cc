"""single-step: time a plan, growth in m, and the ratio to the paper's own recurrence."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from rich.console import Console
from rich.table import Table

from elastream.foresight.ssm.single_step import single_step
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible
from elastream.placement.certificate import certify_step
from elastream_lab.benchmarks._problems import skewed
from elastream_lab.rivals.paper_ssm import paper_ssm

SIZES = [(64, 10, 8, 0.15), (64, 8, 16, 0.15), (256, 10, 8, 0.7), (256, 8, 16, 0.7)]
"""Tasks, nodes before and after, and the target in milliseconds."""
TAUS = (0.2, 0.4, 0.8, 1.2)


def run() -> None:
    """Print the tables."""
    console = Console()
    single_step(skewed(20_000, 40, 50, 0.4))  # compiles
    console.print(_against_the_paper())
    console.print(_growth())
    console.print(_first_plan())


def _seconds(plan: Callable[[], object], repeats: int) -> float:
    """Return the least time of several runs: what the code takes when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        plan()
        times.append(time.perf_counter() - start)
    return min(times)


def _against_the_paper() -> Table:
    table = Table(title="single-step, ms a plan (median of 12 problems), after warm-up")
    for column in ("m", "nodes", "tau", "elastream", "target", "paper's recurrence", "ratio"):
        table.add_column(column, justify="right")
    for tasks, before, after, target in SIZES:
        for tau in TAUS:
            problems = [skewed(tasks, before, after, tau, seed=seed) for seed in range(12)]
            ours = median(_seconds(partial(single_step, p), 15) for p in problems)
            theirs = median(_seconds(partial(paper_ssm, p, compiled=True), 3) for p in problems)
            for problem in problems:
                _same_cost(problem)
            table.add_row(
                str(tasks), f"{before}→{after}", str(tau), f"{1e3 * ours:.3f}", str(target),
                f"{1e3 * theirs:.3f}", f"{theirs / ours:.0f}x",
            )  # fmt: skip
    return table


def _same_cost(problem: StepProblem) -> None:
    plan = single_step(problem)
    cost = paper_ssm(problem, compiled=True)
    if isinstance(plan, Infeasible):
        assert cost is None
    else:
        assert certify_step(problem, plan, contiguous=True).faults == ()
        assert plan.cost == cost


def _growth() -> Table:
    table = Table(title="single-step, growth in m (40→50 nodes, tau 0.1) and the largest size")
    for column in ("m", "nodes", "seconds", "exponent since the row above", "certified"):
        table.add_column(column, justify="right")
    measured: list[tuple[int, float]] = []
    for tasks in (1000, 2000, 4000, 8000, 16_000, 32_000):
        problem = skewed(tasks, 40, 50, 0.1)
        measured.append((tasks, _seconds(partial(single_step, problem), 7)))
        exponent = f"{_exponent(*measured[-2:]):.2f}" if len(measured) > 1 else ""
        table.add_row(str(tasks), "40→50", f"{measured[-1][1]:.4f}", exponent, _certified(problem))
    overall = f"{_exponent(measured[0], measured[-1]):.2f} overall (target 1.15)"
    table.add_row("1000..32000", "", "", overall, "")
    problem = skewed(100_000, 900, 1000, 0.4)
    seconds = _seconds(partial(single_step, problem), 1)
    table.add_row(
        "100000", "900→1000", f"{seconds:.2f}", f"peak {_peak_gib():.2f} GiB", _certified(problem)
    )
    return table


def _exponent(small: tuple[int, float], large: tuple[int, float]) -> float:
    return math.log(large[1] / small[1]) / math.log(large[0] / small[0])


def _certified(problem: StepProblem) -> str:
    plan = single_step(problem)
    assert not isinstance(plan, Infeasible), plan.reason
    assert certify_step(problem, plan, contiguous=True).faults == ()
    return f"yes, cost {plan.cost / sum(problem.state):.2%}"


def _peak_gib() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _first_plan() -> Table:
    script = (
        "from elastream_lab.benchmarks._problems import skewed;"
        "from elastream.foresight.ssm.single_step import single_step;"
        "single_step(skewed(64, 8, 16, 0.4))"
    )
    commands = {
        "first plan of a fresh process, m=64 (target 2 s)": [sys.executable, "-c", script],
        "elastream --help (target 0.2 s)": [sys.executable, "-m", "elastream.cli.main", "--help"],
    }
    table = Table(title="start-up, best of 5")
    table.add_column("command")
    table.add_column("seconds", justify="right")
    for name, command in commands.items():
        seconds = _seconds(partial(subprocess.run, command, check=True, capture_output=True), 5)
        table.add_row(name, f"{seconds:.2f}")
    return table
