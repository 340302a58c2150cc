"""Migrations whose state travels: made ones of several kinds, and those of a user's problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.free_step.planner import free_step
from elastream_lab.rivals.even_split import even_split

_MB = 1_000_000
Volumes = Sequence[tuple[int, int, float]]


@dataclass(frozen=True, slots=True)
class Migration:
    """A plan whose moves take state along."""

    name: str
    problem: StepProblem
    plan: StepPlan

    @property
    def nodes(self) -> int:
        """How many nodes have a link."""
        return self.problem.nodes_after

    @property
    def state_bytes(self) -> int:
        """What travels, all together."""
        return int(sum(move.state for move in self.plan.moves))


def planned(name: str, problem: StepProblem) -> Migration:
    """Return the migration that moves the least, whatever tasks it is."""
    plan = free_step(problem)
    if isinstance(plan, Infeasible):
        raise ProblemError(name, f"no plan exists: {plan.reason}")
    if not plan.moves:
        raise ProblemError(name, "nothing moves, so nothing travels")
    return Migration(name, problem, plan)


def made_migrations(seed: int) -> tuple[Migration, ...]:
    """Return migrations of up to ten nodes, of 8 to 20 MB on their busiest links."""
    dice = np.random.default_rng(seed)
    everyone = [(i, j, 1.0) for i in range(6) for j in range(6) if i != j]
    crossed = [(0, 3, 4.0), (0, 4, 5.0), (1, 3, 3.0), (1, 4, 3.0), (2, 3, 2.0), (2, 4, 1.0)]
    ends = [(int(i), int((i + hop) % 8)) for i, hop in zip(*_ends(dice), strict=True)]
    sizes = 1 + dice.pareto(1.5, size=len(ends))
    drawn = [(i, j, float(size)) for (i, j), size in zip(ends, sizes, strict=True)]
    return (
        _even(dice),
        _of("3 to 2 others", crossed, 5, 12 * _MB),
        _of("6, all to all", everyone, 6, 16 * _MB),
        _of("8, at random", drawn, 8, 20 * _MB),
    )


def _ends(dice: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return dice.integers(0, 8, size=40), dice.integers(1, 8, size=40)


def _even(dice: np.random.Generator) -> Migration:
    """Return an even split of consecutive tasks over two nodes more, as Storm rebalances."""
    state = np.rint(1e5 * (1 + dice.pareto(1.5, size=64))).astype(int)
    cuts = [(8 * node, 8 * node + 8) for node in range(8)]
    problem = StepProblem.of([1] * 64, state.tolist(), cuts, 10, 0.4)
    moves = [(m.source, m.target, float(m.state)) for m in even_split(problem).moves]
    return _of("8 to 10, even", moves, 10, 8 * _MB)


def _of(name: str, volumes: Volumes, nodes: int, longest: int) -> Migration:
    """Return a migration of one task for each volume; the busiest link carries this many bytes."""
    sent, received = [0.0] * nodes, [0.0] * nodes
    for source, target, size in volumes:
        sent[source] += size
        received[target] += size
    scale = longest / max(*sent, *received)
    sizes = [round(scale * size) for *_, size in volumes]
    problem = StepProblem.of(
        [1] * len(sizes), sizes, [source for source, *_ in volumes], nodes, tau=float(nodes)
    )
    return Migration(name, problem, step_plan(problem, tuple(target for _, target, _ in volumes)))
