"""Value iteration as the definition has it: every partition, every pair, by other means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from tests.strategies import step_problems, taus

from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem, TransitionProblem
from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, Target, exact_sum

Cut = tuple[int, ...]


def cuts(tasks: int) -> Iterator[Cut]:
    for count in range(tasks):
        for inner in combinations(range(1, tasks), count):
            yield (0, *inner, tasks)


def serves(cut: Cut, size: int, work: tuple[Number, ...], tau: Number) -> bool:
    limit = Target(size, tau).limit(exact_sum(work)) * (1 + LOAD_TOLERANCE)
    loads = [exact_sum(work[lb:ub]) for lb, ub in pairwise(cut)]
    return len(loads) <= size and max(loads) <= limit


def moved(state: tuple[Number, ...], old: Cut, new: Cut) -> float:
    shared = np.array(
        [
            [exact_sum(state[max(a, c) : max(a, c, min(b, d))]) for c, d in pairwise(new)]
            for a, b in pairwise(old)
        ]
    )
    kept = shared[linear_sum_assignment(shared, maximize=True)].sum()
    return float(exact_sum(state) - kept)


def exact_values(problem: ProjectionProblem, *, sweeps: int = 200) -> dict[tuple[int, Cut], float]:
    """Return C of every partition that serves a size, in every state, by plain sweeps."""
    chain = problem.chain
    members = [
        cut
        for cut in cuts(len(problem.work))
        if any(serves(cut, n, problem.work, problem.tau) for n in chain.sizes)
    ]
    cost = np.array([[moved(problem.state, p, q) for q in members] for p in members])
    allowed = np.array(
        [[serves(q, n, problem.work, problem.tau) for q in members] for n in chain.sizes]
    )
    odds = np.array(chain.matrix)
    values = np.zeros(allowed.shape)
    for _ in range(sweeps):
        later = np.where(allowed, chain.gamma * values, np.inf)
        values = odds @ np.array([(cost + row).min(axis=1) for row in later])
    return {
        (z, cut): values[z, i] for z in range(len(chain.sizes)) for i, cut in enumerate(members)
    }


@st.composite
def chains(draw: st.DrawFn, nodes: int, max_nodes: int = 4) -> MigrationChain:
    """A chain that knows ``nodes``, with zeros in its matrix."""
    sizes = sorted({nodes, *draw(st.lists(st.integers(1, max_nodes), max_size=3))})
    ways = draw(st.sampled_from([None, "up", "down"]))
    weights = st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes))
    rows = [draw(weights.filter(any)) for _ in sizes]
    matrix = [[weight / sum(row) for weight in row] for row in rows]
    gamma = draw(st.sampled_from([0, 0.3, 0.8, 0.9]))
    directions = None if ways is None else [ways] * len(sizes)
    return MigrationChain.of(sizes, matrix, gamma, directions)


@st.composite
def transition_problems(
    draw: st.DrawFn, max_tasks: int = 6, max_nodes: int = 4
) -> TransitionProblem:
    step = draw(step_problems(max_tasks, max_nodes))
    return TransitionProblem.of(step, draw(chains(step.target.nodes, max_nodes)))


@st.composite
def projection_problems(draw: st.DrawFn, max_tasks: int = 6) -> ProjectionProblem:
    tasks = draw(st.integers(1, max_tasks))
    work = draw(st.lists(st.integers(0, 6), min_size=tasks, max_size=tasks))
    unit = draw(st.sampled_from([1, 1, 0.1]))
    state = [
        unit * size for size in draw(st.lists(st.integers(0, 9), min_size=tasks, max_size=tasks))
    ]
    return ProjectionProblem.of(work, state, draw(taus), draw(chains(draw(st.integers(1, 4)))))
