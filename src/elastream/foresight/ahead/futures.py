"""Futures as arrays: the targets of later migrations, drawn from a chain or given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from elastream.foresight.ahead.lazy_steps import followed
from elastream.foresight.ahead.problem import FreeAheadProblem
from elastream.foresight.mtm.problem import MigrationChain
from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.model.migration import LOAD_TOLERANCE, Target, exact_sum

_NEGLIGIBLE = 0.05
"""A drawn future ends when the weight of a migration falls below this."""
_MOST_TASK_STEPS = 30_000_000
"""Limit on the tasks processed by lazy steps of one plan: about a second on an ordinary core."""
_LEAST_LOOKED = 6
"""Minimum number of futures and of candidates at any size."""


States = tuple[int, ...]
"""Consecutive states of a chain."""


@dataclass(frozen=True, slots=True)
class LookAhead:
    """How far and how widely a plan looks ahead."""

    futures: int = 64
    """Number of futures drawn from a chain."""
    migrations: int = 24
    """Maximum length of each; shorter if gamma makes the last ones negligible."""
    candidates: int = 64
    """Number of placements tried in addition to the free step's."""
    rounds: int = 2
    """Number of rounds that try others near the best of them."""
    near: int = 24
    """Number of placements per round."""
    most_extra: float = 0.05
    """How much more than a free step a plan may move now, as a share of all state."""
    seed: int = 0

    def within_reach(self, tasks: int, futures: int | None = None) -> LookAhead:
        """Return the settings reduced to what is affordable for this number of tasks.

        ``futures``: their number if they are given and not drawn.
        """
        steps = (futures or self.futures) * self.migrations * tasks
        wanted = (self.candidates + self.rounds * self.near) * steps
        share = min(1.0, _MOST_TASK_STEPS / wanted)
        if share == 1.0:
            return self
        each = share if futures else share**0.5
        drawn = max(min(_LEAST_LOOKED, self.futures), int(self.futures * share**0.5))
        tried = max(min(_LEAST_LOOKED, self.candidates), int(self.candidates * each))
        return replace(self, futures=drawn, candidates=tried, near=int(self.near * each))


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """Futures, one row each."""

    works: Floats
    """Distinct loads of the tasks in the futures, one row each."""
    of_step: Ints
    """For each migration the row of its work."""
    allowed: Ints
    """For each migration the number of nodes that may hold tasks; 0 after the end of the future."""
    limits: Floats
    """For each migration the maximum work of a node."""
    odds: Floats
    drawn: bool
    """Whether futures are a sample."""

    def costs(self, state: Floats, place: Ints, gamma: float) -> Floats:
        """Return what each future moves starting from ``place``, discounted, by lazy steps."""
        found = np.zeros(len(self.odds))
        operations = 20.0 * self.allowed.size * len(state)
        run = followed.for_operations(operations)
        run(
            self.works,
            self.of_step,
            self.allowed,
            self.limits,
            state,
            place,
            gamma,
            found,
        )
        return found


def ahead_of(problem: FreeAheadProblem, look: LookAhead) -> Ahead:
    """Return the futures of a problem."""
    return _drawn(problem, look) if problem.chain is not None else _given(problem)


def _given(problem: FreeAheadProblem) -> Ahead:
    work = problem.step.work
    total = exact_sum(work)
    longest = max(len(future.targets) for future in problem.futures)
    shape = (len(problem.futures), longest)
    allowed, limits = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    for s, future in enumerate(problem.futures):
        for i, target in enumerate(future.targets):
            allowed[s, i] = target.nodes
            limits[s, i] = target.limit(total) * (1 + LOAD_TOLERANCE)
    odds = np.array([future.odds for future in problem.futures])
    works = np.array([work], dtype=np.float64)
    none = np.zeros(shape, dtype=np.int64)
    return Ahead(works, none, allowed, limits, odds / odds.sum(), drawn=False)


def _drawn(problem: FreeAheadProblem, look: LookAhead) -> Ahead:
    chain, tau = problem.chain, problem.step.target.tau
    assert chain is not None  # noqa: S101 - the caller has checked
    length = _migrations(chain.gamma, look.migrations)
    states = np.array(
        sampled_sequences(chain, problem.state, length, sequences=look.futures, seed=look.seed)
    )
    allowed = np.array(chain.sizes)[states]
    past = [each for each in problem.past if exact_sum(each.work) > 0]
    loads = [each.work for each in past] or [problem.step.work]
    works = np.array(loads, dtype=np.float64)
    of_step = np.zeros(allowed.shape, dtype=np.int64)
    if past:
        random = np.random.default_rng(look.seed)
        near = _nearest([each.nodes for each in past], sorted(set(chain.sizes)))
        for size, rows in near.items():
            there = allowed == size
            of_step[there] = random.choice(rows, int(there.sum()))
    totals = works.sum(axis=1)[of_step]
    limits = np.array(
        [
            [
                Target(int(size), tau).limit(float(total)) * (1 + LOAD_TOLERANCE)
                for size, total in zip(sizes, sums, strict=True)
            ]
            for sizes, sums in zip(allowed, totals, strict=True)
        ]
    )
    odds = np.full(len(allowed), 1 / len(allowed))
    return Ahead(works, of_step, allowed, limits, odds, drawn=True)


def sampled_sequences(
    chain: MigrationChain, state: int, length: int, *, sequences: int, seed: int
) -> list[States]:
    """Return sequences of states that follow ``state``, drawn by the chain's odds."""
    random = np.random.default_rng(seed)
    upto = np.cumsum(np.array(chain.matrix), axis=1)
    drawn = []
    for _ in range(sequences):
        here, states = state, []
        for chance in random.random(length):
            here = int(np.searchsorted(upto[here], chance * upto[here, -1], side="right"))
            states.append(here)
        drawn.append(tuple(states))
    return drawn


def _migrations(gamma: float, most: int) -> int:
    """Return the number of migrations of a future that count."""
    if gamma in (0, 1):
        return 1 if gamma == 0 else most
    return min(most, math.ceil(math.log(_NEGLIGIBLE) / math.log(gamma)))


def possible_targets(problem: FreeAheadProblem) -> list[Target]:
    """Return every target that a placement may have to serve, the current one first."""
    targets = [problem.step.target]
    if problem.chain is not None:
        sizes = [problem.chain.sizes[z] for z in problem.chain.reachable(problem.state)]
        targets += [Target(size, problem.step.target.tau) for size in sizes]
    targets += [target for future in problem.futures for target in future.targets]
    return list(dict.fromkeys(targets))


def _nearest(nodes: list[int], sizes: list[int]) -> dict[int, list[int]]:
    """Return for each size the past loads measured there, or at the nearest size."""
    found = {}
    for size in sizes:
        least = min(abs(each - size) for each in nodes)
        found[size] = [i for i, each in enumerate(nodes) if abs(each - size) == least]
    return found
