"""The exact minimum of a goal over all deployments of an instance.

1. Bound every configuration by the relaxation to one replica an operator, and drop those that
   are not below the best known deployment (at first the current one, where it is allowed). The
   form that bounds best is tried alone at first: the others and the limits see what it leaves.
2. Look for a good deployment among the configurations of the least bounds (beam search).
3. The downtime is the largest of the operators' downtimes: cut the deployments into a few groups by
   it. In a group every configuration takes at most the group's longest downtime, and the shortest
   is charged to all. A group whose bound is not below the best deployment is skipped.
4. In a group thin the configurations out again, until little more goes, and search what is left
   with exact costs-to-go.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.planners.replication.configurations import Configurations, Floats, Ints
from elastream.planners.replication.effort import Effort
from elastream.planners.replication.forms import (
    Form,
    limit_forms,
    longest_paths,
    objective_forms,
)
from elastream.planners.replication.instance import Instance, Objective
from elastream.planners.replication.relaxation import relaxed_bounds
from elastream.planners.replication.search import LEAST_GAIN, Search, ValuedDeployment

__all__ = ["Minimum", "minimise"]

_GROUPS = 5
_BEAM_WIDTH = 200
_BEAM_CONFIGURATIONS = (120, 480)
"""Best configurations of each operator that a beam search looks at; more where that fails."""
_WORTHWHILE = 0.9
"""Thinning out goes on while less than this share is left."""
_WITHIN = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Minimum:
    """The best deployment seen, and a bound on all others."""

    best: ValuedDeployment | None
    lower_bound: float
    """No deployment is worth less; infinite where there is none at all."""


@dataclass(frozen=True, slots=True)
class _Group:
    """The deployments with a downtime between two figures."""

    shortest_ms: float
    longest_ms: float


def minimise(
    instance: Instance,
    goal: Objective,
    *,
    effort: Effort,
    in_order: list[tuple[int, int]],
    start: list[Ints] | None = None,
) -> Minimum:
    """Return the least of ``goal``, or the best found by the time ``effort`` is spent.

    ``in_order`` are pairs of interchangeable nodes: the second is used only where the first is.
    ``start`` is a row of each operator to begin with; it need not be allowed.
    """
    work = _Work(instance, goal, effort, in_order)
    everything = _everything(instance)
    if start is not None:
        work.improve(work.search(everything, instance.narrowed(start)))
    thinned = work.thinned_quickly(everything, instance)
    left = []
    if thinned is not None:
        work.improve_by_beam(everything, thinned)
        left = [work.solved(group, thinned) for group in _groups(thinned.instance, goal)]
    below = work.below if work.best is not None else np.inf
    return Minimum(work.best, min([below, *left]))


@dataclass(frozen=True, slots=True)
class _Thinned:
    """Configurations that are still in question, and what a deployment with one is worth."""

    instance: Instance
    least: list[Floats]
    """The least objective with each configuration of each operator, downtime aside."""

    def ranks(self, goal: Objective, group: _Group) -> list[Floats]:
        """Return the least objective with each configuration in a group."""
        return [
            _ranked(goal, group, domain, least)
            for domain, least in zip(self.instance.domains, self.least, strict=True)
        ]

    def narrowed(self, keep: list[NDArray[np.bool_]]) -> _Thinned:
        """Return the chosen configurations."""
        least = [values[rows] for values, rows in zip(self.least, keep, strict=True)]
        return _Thinned(self.instance.narrowed(keep), least)


class _Work:
    """The best deployment so far, and how to look for a better one."""

    def __init__(
        self,
        instance: Instance,
        goal: Objective,
        effort: Effort,
        in_order: list[tuple[int, int]],
    ) -> None:
        self._goal = goal
        self._effort = effort
        self._in_order = in_order
        self._paths = longest_paths(instance)
        self._objective = objective_forms(instance, goal, self._paths)
        longest = max(float(domain.downtime_ms.max()) for domain in instance.domains)
        self._ceiling = goal.ceiling + goal.downtime * longest
        self.best: ValuedDeployment | None = None

    @property
    def below(self) -> float:
        """What a deployment must be worth less than to matter."""
        if self.best is None:
            return self._ceiling * (1 + 1e-6) + 1e-6
        return self.best.value

    def solved(self, group: _Group, whole: _Thinned) -> float:
        """Improve the best deployment by those of a group; bound what was not looked at."""
        quick = [domain.downtime_ms <= group.longest_ms for domain in whole.instance.domains]
        part = whole.narrowed(quick)
        bound = _lowest(part.ranks(self._goal, group))
        if bound >= self.below - LEAST_GAIN:
            return np.inf
        if self._effort.spent and self.best is not None:
            return bound
        thinned = self.thinned(group, part.instance)
        if thinned is None:
            return np.inf
        if self.improve_by_beam(group, thinned):
            thinned = self.thinned(group, thinned.instance)
            if thinned is None:
                return np.inf
        search = self.search(group, thinned.instance)
        self.improve(search)
        unseen = search.run(self.below, self._keep)
        return max(bound, unseen) if np.isfinite(unseen) else np.inf

    def thinned_quickly(self, group: _Group, instance: Instance) -> _Thinned | None:
        """Return what may still be better than the best by the first form alone."""
        return self._thinned_once(group, instance, self._objective[:1], [])

    def thinned(self, group: _Group, instance: Instance) -> _Thinned | None:
        """Return what may still be better than the best; None where nothing may."""
        after = self.thinned_quickly(group, instance)
        limits = self._limits(group, instance)
        while after is not None:
            before = sum(after.instance.sizes())
            after = self._thinned_once(group, after.instance, self._objective, limits)
            if after is not None and sum(after.instance.sizes()) >= _WORTHWHILE * before:
                return after
        return None

    def _thinned_once(
        self, group: _Group, instance: Instance, objective: list[Form], limits: list[Form]
    ) -> _Thinned | None:
        fitted = instance.fitted()
        if fitted is None:
            return None
        bounds = relaxed_bounds(fitted, objective + limits, self._effort)
        least = [bound[: len(objective)].max(axis=0) for bound in bounds]
        before = _Thinned(fitted, least)
        within = [(bound[len(objective) :] <= _WITHIN).all(axis=0) for bound in bounds]
        ranks = before.ranks(self._goal, group)
        better = [rank < self.below - LEAST_GAIN for rank in ranks]
        after = before.narrowed([a & b for a, b in zip(better, within, strict=True)])
        return after if all(after.instance.sizes()) else None

    def improve_by_beam(self, group: _Group, thinned: _Thinned) -> bool:
        """Look among the best configurations; among more where there is nothing at all.

        Return whether a better deployment was found. Where there are few configurations none is
        looked for here: the group's own search begins with a beam of them all.
        """
        if max(thinned.instance.sizes()) <= _BEAM_CONFIGURATIONS[0]:
            return False
        found = False
        for most in _BEAM_CONFIGURATIONS:
            ranks = thinned.ranks(self._goal, group)
            rows = [np.sort(np.argsort(rank, kind="stable")[:most]) for rank in ranks]
            found = self.improve(self.search(group, thinned.instance.narrowed(rows)))
            if self.best is not None or self._effort.spent:
                break
        return found

    def improve(self, search: Search) -> bool:
        """Keep what a beam search finds, where it is better; return whether it is."""
        better = search.beam(_BEAM_WIDTH, self.below)
        if better is not None:
            self._keep(better)
        return better is not None

    def search(self, group: _Group, instance: Instance) -> Search:
        """Return a search of the deployments of a group."""
        return Search(
            instance,
            self._goal,
            objective=self._objective,
            limits=self._limits(group, instance),
            least_downtime_ms=group.shortest_ms,
            in_order=self._in_order,
            effort=self._effort,
        )

    def _limits(self, group: _Group, instance: Instance) -> list[Form]:
        below = self.below - self._goal.downtime * group.shortest_ms
        return limit_forms(instance, self._goal, self._paths, below=below)

    def _keep(self, found: ValuedDeployment) -> None:
        self.best = found


def _ranked(goal: Objective, group: _Group, domain: Configurations, least: Floats) -> Floats:
    return least + goal.downtime * np.maximum(domain.downtime_ms, group.shortest_ms)


def _lowest(ranks: list[Floats]) -> float:
    return max(float(rank.min(initial=np.inf)) for rank in ranks)


def _everything(instance: Instance) -> _Group:
    least = max(float(domain.downtime_ms.min()) for domain in instance.domains)
    return _Group(least, max(float(domain.downtime_ms.max()) for domain in instance.domains))


def _groups(instance: Instance, goal: Objective) -> list[_Group]:
    """Cut the downtimes that deployments can have at the largest gaps, the least one by itself."""
    least = _everything(instance).shortest_ms
    levels = np.unique(np.concatenate([domain.downtime_ms for domain in instance.domains]))
    levels = levels[levels >= least]
    if goal.downtime == 0 or len(levels) == 1:
        return [_Group(least, float(levels[-1]))]
    gaps = np.diff(levels[1:])
    widest = np.sort(np.argsort(-gaps, kind="stable")[: _GROUPS - 2]) + 2
    starts = [0, 1, *widest.tolist()]
    ends = [*starts[1:], len(levels)]
    return [
        _Group(float(levels[start]), float(levels[end - 1]))
        for start, end in zip(starts, ends, strict=True)
    ]
