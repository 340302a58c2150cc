"""The values of the partitions of a problem: of all of them if they can be listed, else of a pool.

Up to about ten thousand partitions are listed and valued exactly, under the best policy. With more,
a pool is grown (:mod:`~elastream.foresight.mtm.growth`).
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.growth import Finished, GrowthSettings, Start, grow
from elastream.foresight.mtm.partitions import Partitions, all_partitions, count_partitions
from elastream.foresight.mtm.problem import ProjectionProblem
from elastream.foresight.mtm.runner import Runner
from elastream.foresight.mtm.solving import solve
from elastream.foresight.ssm.cuts import Cut, cut_of
from elastream.foresight.ssm.interval_gain import Floats
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem, Target
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
    even = even_cuts(problem)
    if isinstance(even, Infeasible):
        return even
    runner, settings = runner or Runner(), settings or GrowthSettings()
    if count_partitions(ground) <= settings.most_listed:
        members = all_partitions(ground)
        values = solve(ground, members, runner).values
        return PartitionValues(problem, members, values * ground.tick_bytes, complete=True)
    weight = 1.0 if start is None else _WEIGHT_OF_OTHER_STARTS / len(even)
    starts = [Start(cut, state, weight) for state, cut in enumerate(even)]
    if start is not None:
        starts.append(Start(*start, 1.0))
    grown = grow(ground, tuple(starts), settings, runner, finished)
    return PartitionValues(problem, grown.members, grown.values * ground.tick_bytes, complete=False)


def count_all(problem: ProjectionProblem) -> int:
    """Return how many partitions serve a size of the chain, without listing them."""
    return count_partitions(Ground.of(problem.work, problem.state, problem.tau, problem.chain))


def even_cuts(problem: ProjectionProblem) -> list[Cut] | Infeasible:
    """Return for each state of the chain the partition whose heaviest interval is lightest.

    Or why a size cannot be served.
    """
    tasks = len(problem.work)
    whole = Assignment((0,) * tasks, 1)
    cuts = []
    for size in problem.chain.sizes:
        step = StepProblem(problem.work, (0,) * tasks, whole, Target(size, problem.tau))
        plan = single_step(step)
        if isinstance(plan, Infeasible):
            return Infeasible(f"a migration to {size} nodes may follow, and {plan.reason}")
        cuts.append(cut_of(plan.assignment))
    return cuts
