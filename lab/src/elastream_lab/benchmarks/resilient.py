"""resilient: the paper's example, refined against the optimum, volumes, and time a plan."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from elastream.model.plan import Infeasible
from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner.feasible_set import directions, ray_values, volume_ratio
from elastream.resilience.planner.normalised import Floats, Ints, Space, normalise
from elastream.resilience.planner.planner import resilient
from elastream.resilience.planner.refined import refine
from elastream.resilience.planner.rod import rod
from elastream_lab.rivals.methods import METHODS
from elastream_lab.studies.resilience.graphs import problem_of, random_graph
from elastream_lab.studies.resilience.volume_bounds import exact_area_ratio

GRAPHS = 100
"""Small graphs that are searched through."""
PLANS = {"a": (0, 0, 1, 1), "b": (0, 1, 0, 1), "c": (0, 1, 1, 0)}


def run() -> None:
    """Print the tables."""
    console = Console()
    console.print(_example())
    console.print(_areas())
    console.print(_times())
    console.print(_against_the_optimum())


def _space(problem: ResilientProblem) -> Space:
    space = normalise(problem)
    assert not isinstance(space, Infeasible), space.reason
    return space


def _graph(inputs: int, tree: int, nodes: int, seed: int) -> ResilientProblem:
    return problem_of(random_graph(inputs, tree, np.random.default_rng(seed)), nodes)


def _example() -> Table:
    table = Table(title="Example 2 of the paper: parts of the ideal volume")
    for column in ("plan", "paper", "Sobol", "exact"):
        table.add_column(column, justify="right")
    space = _space(ResilientProblem.of([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1]))
    for (name, place), entry in zip(PLANS.items(), ("0.500", "0.635", "0.756"), strict=True):
        weights = space.weights(np.array(place))
        value, error = volume_ratio(weights)
        table.add_row(name, entry, f"{value:.6f} ± {error:.0e}", f"{exact_area_ratio(weights):.6f}")
    return table


def _areas() -> Table:
    table = Table(title="volumes by Sobol points against exact areas, 500 random matrices")
    for column in ("nodes", "largest relative difference"):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(0)
    for nodes in (2, 5, 10, 20):
        worst = 0.0
        for _ in range(125):
            weights = nodes * rng.dirichlet(np.ones(nodes), size=2).T
            exact = exact_area_ratio(weights)
            worst = max(worst, abs(volume_ratio(weights).value - exact) / exact)
        table.add_row(str(nodes), f"{worst:.1e}")
    return table


def _times() -> Table:
    table = Table(
        title="seconds a plan after warm-up, and the part of the ideal volume it bears; "
        "targets for 200 operators: rod 0.05, refined 10"
    )
    for column in ("operators", "nodes", "inputs", "rod", "bears", "refined", "bears"):
        table.add_column(column, justify="right")
    resilient(_graph(2, 3, 2, 0))  # compiles
    for operators, nodes, inputs in ((50, 10, 5), (100, 10, 5), (200, 10, 5), (1000, 20, 5)):
        problem = _graph(inputs, operators // inputs, nodes, 1)
        space = _space(problem)
        quick, first = _timed(partial(rod, space), 3)
        slow, place = _timed(partial(METHODS["refined"], space, 0), 1)
        borne = [f"{volume_ratio(space.weights(p)).value:.4f}" for p in (first, place)]
        table.add_row(
            str(operators), str(nodes), str(inputs), f"{quick:.4f}", borne[0],
            f"{slow:.2f}", borne[1],
        )  # fmt: skip
    return table


def _timed(plan: Callable[[], Ints], repeats: int) -> tuple[float, Ints]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        place = plan()
        times.append(time.perf_counter() - start)
    return min(times), place


def _against_the_optimum() -> Table:
    table = Table(
        title=f"two nodes, up to 14 operators, {GRAPHS} random graphs: part of the optimum"
    )
    for column in ("method", "mean", "worst", "the paper's mean", "the paper's worst"):
        table.add_column(column, justify="right")
    found: dict[str, list[float]] = {"rod": [], "refined": []}
    for seed in range(GRAPHS):
        inputs = 2 + seed % 4
        tree = 1 + (seed // 4) % (14 // inputs)
        space = _space(_graph(inputs, tree, 2, seed))
        points = directions(inputs, 10, seed=3)
        best = _optimum(space, points)
        first = rod(space)
        for method, place in (("rod", first), ("refined", refine(space, first))):
            found[method].append(_value(space, place, points) / best)
    report = {"rod": ("0.95", "0.82"), "refined": ("", "")}
    for method, parts in found.items():
        table.add_row(method, f"{np.mean(parts):.4f}", f"{min(parts):.4f}", *report[method])
    return table


def _value(space: Space, place: Ints, points: Floats) -> float:
    return float(ray_values(space.weights(place), points).mean())


def _optimum(space: Space, points: Floats) -> float:
    """Return the best value over all placements on two nodes, the first operator on node 0."""
    places = itertools.product((0, 1), repeat=len(space.shares) - 1)
    return max(_value(space, np.array((0, *rest)), points) for rest in places)
