"""transition: pairs a second, time to precompute, time a plan, state moved on a random chain."""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.growth import GrowthSettings, first_pool
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.planner import TransitionPlanner
from elastream.foresight.mtm.pricing import pair_costs
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues, even_cuts, partition_values
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, StepPlanner
from elastream.placement.certificate import certify_step
from elastream_lab.benchmarks._problems import skewed
from elastream_lab.rivals.even_split import even_split

SIZES = range(8, 17)
TAUS = (0.2, 0.4, 0.8, 1.2)
GAMMA = 0.8
MIGRATIONS = 1000


def run() -> None:
    """Print the tables."""
    console = Console()
    partition_values(skewed_problem(24, 0.3), settings=GrowthSettings(pool=60, parents=5, rounds=1))
    console.print(_throughput())
    console.print(_precompute())


def skewed_problem(tasks: int, tau: float) -> ProjectionProblem:
    """Return skewed tasks with a random chain over the sizes."""
    random = np.random.default_rng(1)
    matrix = random.exponential(size=(len(SIZES), len(SIZES)))
    np.fill_diagonal(matrix, 0)
    chain = MigrationChain.of(list(SIZES), matrix / matrix.sum(axis=1, keepdims=True), GAMMA)
    step = skewed(tasks, 8, 16, tau, seed=1)
    return ProjectionProblem(step.work, step.state, tau, chain)


def on_the_fewest(problem: ProjectionProblem) -> Assignment:
    """Return consecutive tasks of about equal work for each of the fewest nodes."""
    nodes = problem.chain.sizes[0]
    ends = np.arange(1, nodes) / nodes * sum(problem.work)
    cut = np.searchsorted(np.cumsum(problem.work), ends) + 1
    tasks = len(problem.work)
    return Assignment.from_intervals(list(pairwise([0, *cut.tolist(), tasks])), tasks=tasks)


def _throughput() -> Table:
    table = Table(title="pair costs, million pairs a second and core (target 2)")
    for column in ("m", "intervals", "pairs", "million a second"):
        table.add_column(column, justify="right")
    for tasks in (64, 256):
        problem = skewed_problem(tasks, 0.4)
        ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
        even = even_cuts(problem)
        assert not isinstance(even, Infeasible)
        pool = first_pool(ground, Partitions.of_cuts(even[:1], ground), GrowthSettings())
        sums, count = pool.state_sums(ground), len(pool)
        costs = np.empty((count, count))
        measure = partial(pair_costs.compiled, sums, pool.counts, sums, pool.counts, costs)
        measure()
        rate = costs.size / min(_seconds(measure) for _ in range(3)) / 1e6
        mean = f"{pool.counts.mean():.1f}"
        table.add_row(str(tasks), mean, f"{costs.size:,}", f"{rate:.2f}")
    return table


def _seconds(what: object) -> float:
    start = time.perf_counter()
    what()  # type: ignore[operator]
    return time.perf_counter() - start


def _precompute() -> Table:
    table = Table(
        title=f"in one process; state moved in % of all, mean of {MIGRATIONS} random migrations"
    )
    for column in (
        "m", "tau", "precompute s", "partitions", "ms a plan", "p99", "transition",
        "single-step", "even split",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for tasks in (64, 256):
        for tau in TAUS:
            problem = skewed_problem(tasks, tau)
            start = time.perf_counter()
            values = partition_values(problem)
            taken = time.perf_counter() - start
            if isinstance(values, Infeasible):
                table.add_row(str(tasks), str(tau), f"{taken:.1f}", "cannot fit")
                continue
            table.add_row(str(tasks), str(tau), f"{taken:.1f}", *_compared(problem, values))
    return table


def _compared(problem: ProjectionProblem, values: PartitionValues) -> list[str]:
    planner = TransitionPlanner(values)
    moved, times = _walk(problem, planner)
    greedy, _ = _walk(problem, single_step)
    even, _ = _walk(problem, even_split)
    figures = [f"{1e3 * median(times):.2f}", f"{1e3 * float(np.quantile(times, 0.99)):.2f}"]
    shares = [f"{share:.2%}" for share in (moved, greedy, even)]
    return [f"{len(values.members):,}", *figures, *shares]


def _walk(problem: ProjectionProblem, planner: StepPlanner) -> tuple[float, list[float]]:
    """Return the mean share of state moved by the migrations of the chain, and the times."""
    random = np.random.default_rng(7)
    chain, state = problem.chain, 0
    current = on_the_fewest(problem)
    moved, times = 0.0, []
    for _ in range(MIGRATIONS):
        state = int(random.choice(len(chain.sizes), p=chain.matrix[state]))
        nodes = tuple(sorted(set(current.nodes_of_tasks)))
        renumbered = [nodes.index(node) for node in current.nodes_of_tasks]
        step = StepProblem.of(
            problem.work, problem.state, renumbered, chain.sizes[state], problem.tau
        )
        start = time.perf_counter()
        plan = planner(step)
        times.append(time.perf_counter() - start)
        assert isinstance(plan, StepPlan)
        if planner is not even_split:
            assert certify_step(step, plan, contiguous=True).faults == ()
        moved += float(plan.cost)
        current = plan.assignment
    return moved / MIGRATIONS / sum(problem.state), times
