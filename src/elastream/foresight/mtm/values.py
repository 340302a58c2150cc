"""The values of the partitions of a problem: of all of them if they can be listed, else of a pool.

Up to about ten thousand partitions are listed and valued exactly, under the best policy. With more,
a pool is grown (:mod:`~elastream.foresight.mtm.growth`).
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.growth import Finished, GrowthSettings, Start, grow
from elastream.foresight.mtm.partitions import (
    Partitions,
    all_partitions,
    count_partitions,
    most_even_cut,
)
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.runner import Runner
from elastream.foresight.mtm.solving import solve
from elastream.foresight.ssm.cuts import Cut
from elastream.foresight.ssm.interval_gain import Floats
from elastream.foresight.ssm.single_step import single_step
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible

_WEIGHT_OF_OTHER_STARTS = 0.1
"""Total weight of all other starts, if one is given."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionValues:
    """Partitions and their expected later cost (PMC's vector C)."""

    problem: ProjectionProblem
    members: Partitions
    values: Floats
    """For each state of the chain and each member the discounted state that later migrations are
    expected to move, in bytes."""
    complete: bool
    """Whether the members are all partitions there are, and the values exact."""


def partition_values(
    problem: ProjectionProblem,
    *,
    start: tuple[Cut, int] | None = None,
    settings: GrowthSettings | None = None,
    runner: Runner | None = None,
    finished: Finished = lambda _number, _partitions: None,
) -> PartitionValues | Infeasible:
    """Return the values of the partitions, or the size of the chain that cannot be served.

    ``start`` is the migration that needs them first: the cut where it starts and the state of the
    chain it leads to. A pool is grown around the paths from there. ``runner`` runs the long loops;
    ``finished`` is called after each round of growth.
    """
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    starts = _starts(ground, problem.chain, start)
    if isinstance(starts, int):
        return _unserved(problem, starts)
    runner, settings = runner or Runner(), settings or GrowthSettings()
    if count_partitions(ground) <= settings.most_listed:
        members = all_partitions(ground)
        values = solve(ground, members, runner).values
        return PartitionValues(problem, members, values * ground.tick_bytes, complete=True)
    grown = grow(ground, starts, settings, runner, finished)
    return PartitionValues(problem, grown.members, grown.values * ground.tick_bytes, complete=False)


def count_all(problem: ProjectionProblem) -> int:
    """Return how many partitions serve a size of the chain, without listing them."""
    return count_partitions(Ground.of(problem.work, problem.state, problem.tau, problem.chain))


def unserved_size(problem: ProjectionProblem) -> Infeasible | None:
    """Return why a size of the chain cannot be served, if one cannot."""
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    for size in range(len(ground.sizes)):
        if most_even_cut(ground, size) is None:
            return _unserved(problem, int(ground.sizes[size]))
    return None


def _starts(
    ground: Ground, chain: MigrationChain, start: tuple[Cut, int] | None
) -> tuple[Start, ...] | int:
    """Return the starts of growth, or a size that no partition serves."""
    even = [most_even_cut(ground, size) for size in range(len(ground.sizes))]
    weight = 1.0 if start is None else _WEIGHT_OF_OTHER_STARTS / len(chain.sizes)
    starts = []
    for state, size in enumerate(ground.size_of_state.tolist()):
        cut = even[size]
        if cut is None:
            return chain.sizes[state]
        starts.append(Start(cut, state, weight))
    if start is not None:
        starts.append(Start(*start, 1.0))
    return tuple(starts)


def _unserved(problem: ProjectionProblem, size: int) -> Infeasible:
    whole = [[0, len(problem.work)]]
    outcome = single_step(StepProblem.of(problem.work, problem.state, whole, size, problem.tau))
    why = outcome.reason if isinstance(outcome, Infeasible) else "no partition is found"
    return Infeasible(f"a migration to {size} nodes may follow, and {why}")
