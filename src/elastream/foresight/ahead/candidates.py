"""Candidate placements: many near the free step's, and more near the best of them.

They are lazy steps (:mod:`~elastream.foresight.ahead.lazy_steps`) with three things varied: the
number of nodes, down to each smaller size that may follow, so that a scale-in finds them empty; the
maximum load of a node, down to the limit of each larger size, so that a scale-out finds it light
enough; and the worth of each task where it is, a random guess around its state. Candidates near the
best have a few guesses changed. Equal problems have equal candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from elastream.foresight.ahead.lazy_steps import lazy_step
from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, Target, exact_sum

_FEWER_NODES = (0, 1, 2)
_FULLNESS = (1.0, 0.97, 0.94, 0.91)
_SPREAD = 0.4
"""Standard deviation of the logarithm of a guess."""
_CHANGED = 0.3
"""Share of the guesses changed near a good candidate."""
_SAME_WAY = 0.7
"""Probability that its way is kept."""

Way = tuple[float, int]
"""Maximum load of a node as a share of the limit, and the number of nodes that may hold tasks."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A placement within the limit, and the parameters that produced it."""

    place: Ints
    """A node for each task."""
    way: Way
    worth: Floats
    """Worth of keeping each task where it is."""


class Candidates:
    """Generates the candidates of a step, without duplicates."""

    def __init__(self, step: StepProblem, requested: Iterable[Target], seed: int) -> None:
        self._step = step
        self._work = np.array(step.work, dtype=np.float64)
        self._state = np.array(step.state, dtype=np.float64)
        self._here = np.array(step.current.nodes_of_tasks)
        self._limit = step.limit * (1 + LOAD_TOLERANCE)
        self._random = np.random.default_rng(seed)
        self._ways = _ways(step, requested)
        self._seen: set[bytes] = set()

    def first(self, count: int) -> list[Candidate]:
        """Return up to ``count`` candidates: every way once, then ways with guesses."""
        plain = [(way, self._state) for way in self._ways[:count]]
        guessed = [
            (self._ways[turn % len(self._ways)], self._guessed(self._state, 1.0))
            for turn in range(len(plain), count)
        ]
        return self._placed([*plain, *guessed])

    def near(self, best: Sequence[Candidate], count: int) -> list[Candidate]:
        """Return up to ``count`` candidates that differ little from the best."""
        tried = []
        for turn in range(count if best else 0):
            base = best[turn % len(best)]
            way = base.way
            if self._random.random() > _SAME_WAY:
                way = self._ways[int(self._random.integers(len(self._ways)))]
            tried.append((way, self._guessed(base.worth, _CHANGED)))
        return self._placed(tried)

    def _placed(self, tried: Sequence[tuple[Way, Floats]]) -> list[Candidate]:
        run = lazy_step.for_operations(20.0 * len(tried) * len(self._work))
        found = []
        for way, worth in tried:
            fullness, nodes = way
            place = np.empty(len(self._work), dtype=np.int64)
            limit = self._limit * fullness
            run(self._work, self._state, worth, self._here, nodes, limit, place)
            key = place.tobytes()
            if key not in self._seen and self._fits(place):
                self._seen.add(key)
                found.append(Candidate(place, way, worth))
        return found

    def _guessed(self, worth: Floats, share: float) -> Floats:
        """Return the worth with this share of it guessed again."""
        noise = _SPREAD * self._random.standard_normal(len(worth))
        guess: Floats = worth * np.exp(noise * (self._random.random(len(worth)) < share))
        return guess

    def _fits(self, place: Ints) -> bool:
        loads = np.bincount(place, weights=self._work)
        used = len(np.unique(place))
        step = self._step
        return bool(
            loads.max() <= self._limit
            and used <= step.target.nodes
            and place.max() < step.nodes_after
        )


def _ways(step: StepProblem, requested: Iterable[Target]) -> list[Way]:
    """Return the ways that have room for all work; the step as requested comes first."""
    total, now = float(exact_sum(step.work)), step.target
    fullness, nodes = (
        dict.fromkeys(_FULLNESS),
        dict.fromkeys(max(1, now.nodes - fewer) for fewer in _FEWER_NODES),
    )
    for target in sorted(requested, key=lambda target: -target.limit(total)):
        if step.limit and target.limit(total) < step.limit:
            fullness[target.limit(total) / step.limit] = None
        if target.nodes < now.nodes:
            nodes[target.nodes] = None
    return [
        way
        for way in product(sorted(fullness, reverse=True), sorted(nodes, reverse=True))
        if way == (1.0, now.nodes) or way[0] * way[1] * step.limit >= total
    ]
