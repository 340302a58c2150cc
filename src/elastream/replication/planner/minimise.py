"""The exact minimum of a goal over all deployments of an instance.

1. Bound every configuration with one replica drawn of each operator (``drawn_bounds``), and drop
   those that are not below the best known deployment: at first the current one, where it is
   allowed. As long as none is known, the limits rule out, too.
2. Look for a good deployment among the configurations of the least bounds (beam search), and drop
   what is not below that.
3. The same with the tighter and dearer bounds (``relaxed_bounds``), at first of the form that
   bounds best alone: the others and the limits see what it leaves, until little more goes.
4. Search what is left with exact costs-to-go, as soon as it is little enough.

The downtime is the largest of the operators' downtimes. Each configuration is charged its own, and
all of them the *floor*: what the quickest configuration left of some operator takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from elastream.replication.planner.configurations import Floats, Ints
from elastream.replication.planner.effort import Effort
from elastream.replication.planner.forms import (
    Form,
    limit_forms,
    longest_paths,
    objective_forms,
)
from elastream.replication.planner.instance import Instance, Objective
from elastream.replication.planner.relaxation import drawn_bounds, relaxed_bounds
from elastream.replication.planner.search import LEAST_GAIN, Search, ValuedDeployment

__all__ = ["Minimum", "minimise"]

_BEAM_WIDTH = 200
_BEAM_CONFIGURATIONS = (120, 480)
"""Best configurations of each operator that a beam search looks at; more where that fails."""
_WORTHWHILE = 0.9
"""Thinning out goes on while less than this share is left."""
_FEW = 1_000_000
"""So few combinations are searched rather than thinned out further."""
_WITHIN = 1 + 1e-9

Bounds = Callable[[Instance, list[Form], Effort], list[Floats]]


@dataclass(frozen=True, slots=True)
class Minimum:
    """The best deployment seen, and a bound on all others."""

    best: ValuedDeployment | None
    lower_bound: float
    """No deployment is worth less; infinite where there is none at all."""


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
    if start is not None:
        work.improve(work.search(instance.narrowed(start)))
    unseen = work.solved(instance)
    below = work.below if work.best is not None else np.inf
    return Minimum(work.best, min(below, unseen))


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
        self._forms = objective_forms(instance, goal, self._paths)
        """Those that bound best come first. The search needs the others, too: which one bounds
        best changes as operators get their places."""
        self._telling = len(self._forms)
        """How many bound any configuration best."""
        longest = max(float(domain.downtime_ms.max()) for domain in instance.domains)
        self._ceiling = goal.ceiling + goal.downtime * longest
        self.best: ValuedDeployment | None = None

    @property
    def below(self) -> float:
        """What a deployment must be worth less than to matter."""
        if self.best is None:
            return self._ceiling * (1 + 1e-6) + 1e-6
        return self.best.value

    def solved(self, instance: Instance) -> float:
        """Improve the best deployment; bound what was not looked at, infinite where all was."""
        left = instance.fitted()
        for thinner in (self.drawn, self.drawn_within_limits, self.relaxed_by_one, self.relaxed):
            if left is not None and not self._searchable(left):
                left = thinner(left)
        if left is None:
            return np.inf
        bound = max(float(rank.min()) for rank in self._ranks(left))
        if self._effort.spent and self.best is not None:
            return bound
        search = self.search(left)
        self.improve(search)
        unseen = search.run(self.below, self._keep)
        return max(bound, unseen) if np.isfinite(unseen) else np.inf

    def _searchable(self, instance: Instance) -> bool:
        """Whether thinning out further is not worth while."""
        if self._effort.spent and self.best is not None:
            return True
        return prod(instance.sizes()) <= _FEW

    def drawn(self, instance: Instance) -> Instance | None:
        """Return what may still be better by the cheap bounds, after a first beam search."""
        left = self.thinned(instance, drawn_bounds, self._forms[: self._telling], [])
        return None if left is None else self.below_beam(left)

    def drawn_within_limits(self, instance: Instance) -> Instance | None:
        """Return the same by the limits, which matter as long as nothing good is known."""
        return instance if self.best is not None else self.thinned_out(instance, drawn_bounds)

    def relaxed_by_one(self, instance: Instance) -> Instance | None:
        """Return what may still be better by the form that bounds best alone, after a beam."""
        left = self.thinned(instance, relaxed_bounds, self._forms[:1], [])
        return None if left is None else self.below_beam(left)

    def relaxed(self, instance: Instance) -> Instance | None:
        """Return what may still be better by all forms and limits."""
        return self.thinned_out(instance, relaxed_bounds)

    def thinned_out(self, instance: Instance, bounds: Bounds) -> Instance | None:
        """Thin out by all forms and limits until little goes or little is left."""
        left: Instance | None = instance
        while left is not None:
            before = sum(left.sizes())
            telling, limits = self._forms[: self._telling], self._limits(left)
            left = self.thinned(left, bounds, telling, limits)
            if left is None or self._searchable(left) or sum(left.sizes()) > _WORTHWHILE * before:
                break
        return left

    def thinned(
        self, instance: Instance, bounds: Bounds, objective: list[Form], limits: list[Form]
    ) -> Instance | None:
        """Return what may still be better than the best by some forms and limits."""
        fitted = instance.fitted()
        if fitted is None:
            return None
        found = bounds(fitted, objective + limits, self._effort)
        least = [
            np.maximum(domain.least, bound[: len(objective)].max(axis=0))
            for domain, bound in zip(fitted.domains, found, strict=True)
        ]
        if len(objective) > 1:
            order, self._telling = _most_telling_first(len(objective), found)
            self._forms[: len(objective)] = [objective[i] for i in order]
        within = [np.all(bound[len(objective) :] <= _WITHIN, axis=0) for bound in found]
        after = fitted.bounded(least).narrowed(within)
        return self.promising(after) if all(after.sizes()) else None

    def promising(self, instance: Instance) -> Instance | None:
        """Return what may still be better than the best by what is known; None for nothing."""
        better = [rank < self.below - LEAST_GAIN for rank in self._ranks(instance)]
        after = instance.narrowed(better)
        return after if all(after.sizes()) else None

    def below_beam(self, instance: Instance) -> Instance | None:
        """Look among the best configurations; return what may be better than what is found.

        Where nothing is found or known at all, more of them are looked at.
        """
        for most in _BEAM_CONFIGURATIONS:
            ranks = self._ranks(instance)
            rows = [np.sort(np.argsort(rank, kind="stable")[:most]) for rank in ranks]
            self.improve(self.search(instance.narrowed(rows)))
            if self.best is not None or self._effort.spent or max(instance.sizes()) <= most:
                break
        return self.promising(instance)

    def improve(self, search: Search) -> None:
        """Keep what a beam search finds, where it is better."""
        better = search.beam(_BEAM_WIDTH, self.below)
        if better is not None:
            self._keep(better)

    def search(self, instance: Instance) -> Search:
        """Return a search of the deployments of an instance."""
        return Search(
            instance,
            self._goal,
            objective=self._forms,
            limits=self._limits(instance),
            in_order=self._in_order,
            effort=self._effort,
        )

    def _ranks(self, instance: Instance) -> list[Floats]:
        """Return what a deployment with each configuration is worth at least."""
        floor, weight = instance.least_downtime_ms, self._goal.downtime
        return [d.least + weight * np.maximum(d.downtime_ms, floor) for d in instance.domains]

    def _limits(self, instance: Instance) -> list[Form]:
        below = self.below - self._goal.downtime * instance.least_downtime_ms
        return limit_forms(instance, self._goal, self._paths, below=below)

    def _keep(self, found: ValuedDeployment) -> None:
        self.best = found


def _most_telling_first(forms: int, found: list[Floats]) -> tuple[Ints, int]:
    """Return the forms by how often each bounds a configuration best, and how many ever do."""
    best = np.concatenate([bound[:forms].argmax(axis=0) for bound in found])
    times = np.bincount(best, minlength=forms)
    return np.argsort(-times, kind="stable"), int((times > 0).sum())
