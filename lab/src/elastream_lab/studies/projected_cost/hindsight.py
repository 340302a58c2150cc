"""What later migrations would move if they were known: the papers' own projected cost.

Papers 000 (definition 4.1) and 001 (definition 5.3) project the cost of a partition by taking every
sequence of migrations that the chain allows, planning each as a whole, and weighting the least
weighted costs by the odds of the sequences. Such a plan knows the sequence beforehand: it is the
cost *in hindsight*. A query learns each size only when it comes; what it can reach at best is the
value of a policy (:mod:`~elastream.foresight.mtm.solving`), which is never below. The difference is
the worth of knowing the future. If a pool was valued in place of all partitions it is also the most
that the pool can have missed.

There are ``Z ** p`` sequences of p migrations, so they are sampled from the chain, and each is
planned by :func:`~elastream.foresight.oms.planner.sequence`; if all partitions can be listed, a
table of them plans all samples at once, at the same costs. Two things keep the estimate below the
definition: a sequence ends after some migrations, though more would follow, and one that is not
solved to its end counts with its proven bound. So its mean is a statistical lower bound: of the
policy's value, and of the definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elastream.foresight.ahead.futures import States, sampled_sequences
from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.partitions import (
    Partitions,
    all_partitions,
    count_partitions,
)
from elastream.foresight.mtm.problem import ProjectionProblem
from elastream.foresight.mtm.values import even_cuts
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequenceProblem
from elastream.foresight.ssm.cuts import cut_of
from elastream.model.assignment import Assignment
from elastream.model.migration import Target
from elastream.model.plan import Infeasible
from elastream_lab.studies.projected_cost.figure_six import all_pair_costs

_NEGLIGIBLE = 0.005
"""Migrations with less weight than this share of the first are left out."""
_MOST_PLANNED, _MOST_SWEPT = 24, 1000
"""Maximum number of migrations of a sequence; planned individually, longer ones are too
expensive."""

_MOST_LISTED = 2000
"""Up to this many partitions are listed: their pairs take 32 MB, and a sweep about a second."""

Cost = tuple[float, bool]
"""A lower bound on the weighted cost of a sequence, in bytes, and whether it is exact."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many sequences are planned, and with which effort."""

    sequences: int = 32
    migrations: int | None = None
    """Number of migrations in each; ``None``: those that matter."""
    effort: float = 300_000_000
    """Limit for one sequence: seconds on an ordinary core, usually enough for 64 tasks."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Hindsight:
    """The weighted cost of sampled sequences, each planned as a whole."""

    mean: float
    """Mean of the proven lower bounds, in bytes."""
    standard_error: float
    """Standard error of the mean, from the spread of the sample; 0 for a single sequence."""
    sequences: int
    migrations: int
    """In each sequence."""
    proven: int
    """Number of sequences planned to the proven optimum."""


def hindsight(
    problem: ProjectionProblem,
    current: Assignment,
    state: int,
    *,
    with_first: bool = False,
    sampling: Sampling | None = None,
    planned: Callable[[], None] = lambda: None,
) -> Hindsight | Infeasible:
    """Return what the migrations after ``state`` cost in hindsight, from where tasks are.

    ``with_first``: the migration to ``state`` is planned too, and counts in full. The mean is then
    below what any planner moves now and, discounted, later, whatever partition it goes to.
    ``planned`` is called after each sequence that is planned by itself.
    """
    sampling = sampling or Sampling()
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    listed = count_partitions(ground) <= _MOST_LISTED and not isinstance(
        even_cuts(problem), Infeasible
    )
    most = _MOST_SWEPT if listed else _MOST_PLANNED
    length = sampling.migrations or migrations_that_matter(problem.chain.gamma, most)
    drawn = sampled_sequences(
        problem.chain, state, length, sequences=sampling.sequences, seed=sampling.seed
    )
    if with_first:
        drawn = [(state, *states) for states in drawn]
    distinct = list(dict.fromkeys(drawn))
    if listed:
        costs = _by_listing(ground, current, distinct)
    else:
        bounds = _by_planning(problem, current, distinct, sampling.effort, planned)
        if isinstance(bounds, Infeasible):
            return bounds
        costs = bounds
    by_states = dict(zip(distinct, costs, strict=True))
    return _estimate([by_states[states] for states in drawn], length)


def _by_listing(ground: Ground, current: Assignment, sequences: list[States]) -> list[Cost]:
    """Return the least costs, migration by migration from the last, over all partitions."""
    here = Partitions.of_cuts([cut_of(current)], ground)
    members = all_partitions(ground).followed_by(here)
    costs = all_pair_costs(ground, members)
    serves = members.serves(ground)[ground.size_of_state]
    steps = np.array(sequences).T
    onward = np.zeros((len(sequences), len(members)))
    for states in steps[::-1]:
        later = np.where(serves[states], ground.gamma * onward, np.inf)
        onward = np.array([(costs + row).min(axis=1) for row in later])
    return [(float(least) * ground.tick_bytes, True) for least in onward[:, -1]]


def _by_planning(
    problem: ProjectionProblem,
    current: Assignment,
    sequences: list[States],
    effort: float,
    planned: Callable[[], None],
) -> list[Cost] | Infeasible:
    """Return the proven bounds of plans of whole sequences."""
    costs: list[Cost] = []
    for states in sequences:
        targets = tuple(Target(problem.chain.sizes[z], problem.tau) for z in states)
        known = SequenceProblem(problem.work, problem.state, current, targets, problem.chain.gamma)
        plan = sequence(known, effort=effort)
        if isinstance(plan, Infeasible):
            return plan
        costs.append((float(plan.lower_bound), plan.status == "optimal"))
        planned()
    return costs


def migrations_that_matter(gamma: float, most: int) -> int:
    """Return the number of migrations in a sequence: later ones are negligible."""
    if gamma == 0:
        return 1
    if gamma == 1:
        return most
    return min(most, math.ceil(math.log(_NEGLIGIBLE) / math.log(gamma)) + 1)


def _estimate(costs: Sequence[Cost], length: int) -> Hindsight:
    bounds = np.array([bound for bound, _ in costs])
    count = len(bounds)
    spread = float(bounds.std(ddof=1)) if count > 1 else 0.0
    proven = sum(optimal for _, optimal in costs)
    return Hindsight(float(bounds.mean()), spread / math.sqrt(count), count, length, proven)
