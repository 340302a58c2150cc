"""Values when partitions cannot all be listed: a pool grown by column generation.

1. Seeds: a random walk of migrations, each to a random *target* of the current partition.
2. Value the pool (:mod:`~elastream.foresight.mtm.solving`) and follow its policy from the starts:
   how often is each member visited?
3. Candidates are the neighbourhood of the visited members. Each is priced
   (:mod:`~elastream.foresight.mtm.pricing`); the best fill the pool in addition to all visited
   members. Continue at 2 until the value of the starts settles.

Visited members stay, so the value of the starts never rises. Every value is that of an actual
policy, an upper bound on the true one. Papers 000 (section 4.2) and 001 (section 5.2) value every
partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.neighbourhood import neighbourhood, targets
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.pricing import Pool, mask_served, shortfalls
from elastream.foresight.mtm.runner import Runner
from elastream.foresight.mtm.solving import Solution, solve
from elastream.foresight.ssm.interval_gain import Floats, Ints

_WALK_STEPS = 40
"""Migrations of each seeding walk."""
_VISITS_SWEEPS = 300
"""Number of migrations for which the policy is followed."""
_LEAST_PRICED = 32
"""Candidates of a block."""
_LEAST_VISITS = 1e-9
"""Members visited less often in a migration than this count as not visited."""


@dataclass(frozen=True, slots=True)
class GrowthSettings:
    """When a pool is grown, how large, and for how long."""

    most_listed: int = 20_000
    """Up to this many partitions are all listed, and no pool is grown: exact, in a few seconds."""
    pool: int = 2000
    """Maximum number of members of the pool (K)."""
    parents: int = 150
    """The neighbourhood of this many of the most visited members is searched."""
    rounds: int = 8
    """Maximum number of rounds."""
    rest: float = 1e-3
    """A round that lowers the value by less than this share counts as settled."""
    rests: int = 2
    """Growth ends after this many consecutive settled rounds."""
    seed: int = 0


Finished = Callable[[int, int], None]
"""Takes the number of a finished round, and how many members the pool of the next one has."""


@dataclass(frozen=True, slots=True)
class Start:
    """A migration for which the values are computed."""

    cut: tuple[int, ...]
    """Where it starts."""
    state: int
    """The state of the chain after it."""
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A valued pool, its members in falling order of how often they are visited."""

    members: Partitions
    values: Floats
    """C in each state, in ticks."""
    value: float
    """The mean value of the starts, in ticks."""


def grow(
    ground: Ground,
    starts: tuple[Start, ...],
    settings: GrowthSettings,
    runner: Runner,
    finished: Finished,
) -> Grown:
    """Return a valued pool for the starts; ``finished`` is called after every round."""
    first = Partitions.of_cuts((start.cut for start in starts), ground)
    pool = first_pool(ground, first, settings)
    best, resting = None, 0
    for number in range(1, settings.rounds + 1):
        solution = solve(ground, pool, runner)
        visits = _visits(ground, pool, solution, starts)
        value = _value(pool, solution, starts, ground)
        resting = resting + 1 if best and value > best.value * (1 - settings.rest) else 0
        if best is None or value <= best.value:
            order = np.argsort(-visits, kind="stable")
            best = Grown(pool.taken(order), solution.values[:, order], value)
        pool = _regrown(ground, pool, solution, visits, first, settings, runner)
        finished(number, len(pool))
        if resting == settings.rests:
            break
    assert best is not None  # noqa: S101 - settings.rounds is at least 1
    return best


def first_pool(ground: Ground, starts: Partitions, settings: GrowthSettings) -> Partitions:
    """Return the first pool: what random walks from the starts visit, and the starts."""
    random = np.random.default_rng(settings.seed)
    sizes = ground.size_of_state
    rows: list[Ints] = []
    for begin in range(len(starts)):
        cut = starts.bounds[begin, : starts.counts[begin] + 1]
        state = int(random.integers(len(sizes)))
        for _ in range(_WALK_STEPS):
            state = int(random.choice(len(sizes), p=ground.odds[state]))
            found = targets(ground, cut, size=int(sizes[state]))
            rows.append(found)
            chosen = found[random.integers(len(found))]
            cut = chosen[: int((chosen[1:] < ground.tasks).sum()) + 2]
    met = Partitions.of_rows(np.concatenate(rows), ground.tasks)
    room = settings.pool - len(starts)
    if len(met) > room:
        met = met.taken(np.sort(random.choice(len(met), room, replace=False)))
    return starts.joined(met)


def _value(
    pool: Partitions, solution: Solution, starts: tuple[Start, ...], ground: Ground
) -> float:
    total = 0.0
    for start, place in zip(starts, _places(ground, pool, starts), strict=True):
        total += start.weight * float(solution.onward[start.state, place])
    return total / sum(start.weight for start in starts)


def _places(ground: Ground, pool: Partitions, starts: tuple[Start, ...]) -> list[int]:
    wanted = Partitions.of_cuts((start.cut for start in starts), ground)
    known = {wanted.cut(i): int(place) for i, place in enumerate(pool.places(wanted))}
    return [known[start.cut] for start in starts]


def _visits(
    ground: Ground, pool: Partitions, solution: Solution, starts: tuple[Start, ...]
) -> Floats:
    """Return how often each member is the start or end of a migration, as a share of all."""
    states, members = solution.successor.shape
    here = np.zeros((states, members))
    for start, place in zip(starts, _places(ground, pool, starts), strict=True):
        here[start.state, solution.successor[start.state, place]] += start.weight
    here /= here.sum()
    visits = np.zeros(members)
    for _ in range(_VISITS_SWEEPS):
        visits += here.sum(axis=0)
        leaving = ground.odds.T @ here
        here = np.array(
            [
                np.bincount(next_, weights=flow, minlength=members)
                for next_, flow in zip(solution.successor, leaving, strict=True)
            ]
        )
    return visits / _VISITS_SWEEPS


def _regrown(
    ground: Ground,
    pool: Partitions,
    solution: Solution,
    visits: Floats,
    starts: Partitions,
    settings: GrowthSettings,
    runner: Runner,
) -> Partitions:
    """Return the visited members, the starts, and the best candidates."""
    order = np.argsort(-visits, kind="stable")
    visited = order[visits[order] > _LEAST_VISITS][: settings.pool - len(starts)]
    parents = visited[: settings.parents]
    kept = starts.joined(pool.taken(visited))
    blocks = [pool.taken(parents[some]) for some in runner.split(len(parents), 1)]
    near = runner.run(_near, ground, None, blocks)
    fresh = Partitions.of_rows(np.concatenate(near), ground.tasks).joined(pool)
    fresh = fresh.taken(kept.places(fresh) < 0)
    room = settings.pool - len(kept)
    if len(fresh) > room:
        onward = mask_served(ground, pool.taken(parents), solution.onward[:, parents])
        backing = np.union1d(visited, pool.places(starts))
        valued = Pool.of(ground, pool.taken(backing), solution.values[:, backing])
        candidates = [fresh.taken(some) for some in runner.split(len(fresh), _LEAST_PRICED)]
        shared = valued, pool.taken(parents), onward
        order = np.argsort(
            np.concatenate(runner.run(_priced, ground, shared, candidates)), kind="stable"
        )
        fresh = fresh.taken(np.sort(order[: max(room, 0)]))
    return kept.joined(fresh) if len(fresh) else kept


def _near(ground: Ground, _: None, parents: Partitions) -> Ints:
    return neighbourhood(ground, parents).bounds


def _priced(
    ground: Ground, shared: tuple[Pool, Partitions, Floats], candidates: Partitions
) -> Floats:
    valued, visited, onward = shared
    return shortfalls(ground, candidates, valued, visited, onward)
