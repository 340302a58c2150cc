"""Seeded problems of any size: few heavy tasks and many light ones, or all kinds alike."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.migration import StepProblem, Target


def skewed(tasks: int, before: int, after: int, tau: float, *, seed: int = 0) -> StepProblem:
    """Return a migration of ``tasks`` whose load and state fall off like a square root.

    The current intervals are the ones a balanced start gives: equal work, cut by cut.
    """
    rng = np.random.default_rng(seed)
    falling = np.sqrt(np.arange(1, tasks + 1) + tasks / 16)
    work = np.rint(rng.permutation(1e5 / falling)).astype(int)
    state = np.rint(rng.permutation(1e8 / falling)).astype(int)
    shares = np.searchsorted(np.cumsum(work) / work.sum(), np.arange(1, before) / before) + 1
    cuts = [0, *shares.tolist(), tasks]
    return StepProblem.of(work, state, list(pairwise(cuts)), after, tau)


def skewed_sequence(tasks: int, nodes: tuple[int, ...], tau: float) -> SequenceProblem:
    """Return migrations of such tasks; ``nodes`` are the counts from the current one on."""
    step = skewed(tasks, nodes[0], nodes[1], tau, seed=1)
    targets = tuple(Target(count, tau) for count in nodes[1:])
    return SequenceProblem(step.work, step.state, step.current, targets)


def uniform(tasks: int, before: int, after: int, tau: float) -> StepProblem:
    """Return a migration of ``tasks`` whose load and state are drawn evenly from 1 to 1000.

    Every node starts with the same number of tasks, or one more.
    """
    rng = np.random.default_rng(0)
    work, state = rng.integers(1, 1001, (2, tasks))
    cuts = [node * tasks // before for node in range(before + 1)]
    return StepProblem.of(work, state, list(pairwise(cuts)), after, tau)
