"""The exact minimum of an objective over all deployments of an instance.

1. Bound every configuration with one replica drawn per operator (``drawn_bounds``), and drop those
   that are not below the best known deployment. Initially that is the current one, if it is valid.
   As long as none is known, the limits rule out configurations too.
2. Search for a good deployment among the configurations with the least bounds (beam search), and
   drop what is not below it.
3. Repeat with the tighter and more expensive bounds (``relaxed_bounds``), first with the form that
   bounds best alone. The other forms and the limits see what it leaves, until few more are dropped.
4. Search the rest with exact costs-to-go, as soon as it is small enough.

The downtime is the largest of the operators' downtimes. Each configuration is charged its own, and
all of them the *floor*: the downtime of the quickest remaining configuration of some operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from elastream.replication.planner.configurations import Floats, Ints
from elastream.replication.planner.elimination import Effort
from elastream.replication.planner.forms import (
    Form,
    limit_forms,
    longest_paths,
    objective_forms,
)
from elastream.replication.planner.instance import Instance, Objective
from elastream.replication.planner.relaxation import drawn_bounds, relaxed_bounds
from elastream.replication.planner.search import LEAST_GAIN, Search, ValuedDeployment

_BEAM_WIDTH = 200
_BEAM_CONFIGURATIONS = (120, 480)
"""Number of best configurations of each operator in a beam search; the second if the first
fails."""
_WORTHWHILE = 0.9
"""Pruning continues while less than this share is left."""
_FEW = 1_000_000
"""At most this many combinations are searched without further pruning."""
_WITHIN = 1 + 1e-9

Bounds = Callable[[Instance, list[Form], Effort], list[Floats]]


@dataclass(frozen=True, slots=True)
class Minimum:
    """The best deployment seen, and a lower bound on all others."""

    best: ValuedDeployment | None
    lower_bound: float
    """No deployment is worth less; infinite if there is none at all."""


def minimise(
    instance: Instance,
    goal: Objective,
    *,
    effort: Effort,
    in_order: list[tuple[int, int]],
    start: list[Ints] | None = None,
) -> Minimum:
    """Return the minimum of ``goal``, or the best deployment found before ``effort`` is spent.

    ``in_order`` are pairs of interchangeable nodes: the second is used only if the first is.
    ``start`` is an initial row for each operator; it need not be valid.
    """
    work = _Work(instance, goal, effort, in_order)
    if start is not None:
        work.improve(work.search(instance.narrowed(start)))
    unseen = work.solved(instance)
    below = work.below if work.best is not None else np.inf
    return Minimum(work.best, min(below, unseen))


class _Work:
    """The best deployment so far, and the steps that look for a better one."""

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
        """Ordered by how often each bounds best. The search needs them all: which one bounds best
        changes as operators are placed."""
        self._useful = len(self._forms)
        """Number of forms that are the best bound for any configuration."""
        longest = max(float(domain.downtime_ms.max()) for domain in instance.domains)
        self._ceiling = goal.ceiling + goal.downtime * longest
        self.best: ValuedDeployment | None = None

    @property
    def below(self) -> float:
        """Deployments worth this much or more do not matter."""
        if self.best is None:
            return self._ceiling * (1 + 1e-6) + 1e-6
        return self.best.value

    def solved(self, instance: Instance) -> float:
        """Improve the best deployment; return a bound on the rest, infinite if all was searched."""
        left = instance.fitted()
        for prune in (self.drawn, self.drawn_within_limits, self.relaxed_by_one, self.relaxed):
            if left is not None and not self._searchable(left):
                left = prune(left)
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
        """Return whether further pruning is not worth its cost."""
        if self._effort.spent and self.best is not None:
            return True
        return prod(instance.sizes()) <= _FEW

    def drawn(self, instance: Instance) -> Instance | None:
        """Return what may still be better by the cheap bounds, after a first beam search."""
        left = self.pruned(instance, drawn_bounds, self._forms[: self._useful], [])
        return None if left is None else self.below_beam(left)

    def drawn_within_limits(self, instance: Instance) -> Instance | None:
        """Return the same by the limits, which matter as long as nothing good is known."""
        return instance if self.best is not None else self.pruned_by_all(instance, drawn_bounds)

    def relaxed_by_one(self, instance: Instance) -> Instance | None:
        """Return what may still be better by the single best form, after a beam search."""
        left = self.pruned(instance, relaxed_bounds, self._forms[:1], [])
        return None if left is None else self.below_beam(left)

    def relaxed(self, instance: Instance) -> Instance | None:
        """Return what may still be better by all forms and limits."""
        return self.pruned_by_all(instance, relaxed_bounds)

    def pruned_by_all(self, instance: Instance, bounds: Bounds) -> Instance | None:
        """Prune by all forms and limits until few are dropped or few are left."""
        left: Instance | None = instance
        while left is not None:
            previous = sum(left.sizes())
            useful, limits = self._forms[: self._useful], self._limits(left)
            left = self.pruned(left, bounds, useful, limits)
            if left is None or self._searchable(left) or sum(left.sizes()) > _WORTHWHILE * previous:
                break
        return left

    def pruned(
        self, instance: Instance, bounds: Bounds, objective: list[Form], limits: list[Form]
    ) -> Instance | None:
        """Return what may still be better than the best by the given forms and limits."""
        fitted = instance.fitted()
        if fitted is None:
            return None
        bounds_by_form = bounds(fitted, objective + limits, self._effort)
        least = [
            np.maximum(domain.least, bound[: len(objective)].max(axis=0))
            for domain, bound in zip(fitted.domains, bounds_by_form, strict=True)
        ]
        if len(objective) > 1:
            order, self._useful = _most_useful_first(len(objective), bounds_by_form)
            self._forms[: len(objective)] = [objective[i] for i in order]
        within = [np.all(bound[len(objective) :] <= _WITHIN, axis=0) for bound in bounds_by_form]
        after = fitted.bounded(least).narrowed(within)
        return self.promising(after) if all(after.sizes()) else None

    def promising(self, instance: Instance) -> Instance | None:
        """Return what may still be better than the best by the known bounds; None for nothing."""
        better = [rank < self.below - LEAST_GAIN for rank in self._ranks(instance)]
        after = instance.narrowed(better)
        return after if all(after.sizes()) else None

    def below_beam(self, instance: Instance) -> Instance | None:
        """Search among the best configurations; return what may be better than the result.

        If nothing is known or found, a wider beam is tried.
        """
        for most in _BEAM_CONFIGURATIONS:
            ranks = self._ranks(instance)
            rows = [np.sort(np.argsort(rank, kind="stable")[:most]) for rank in ranks]
            self.improve(self.search(instance.narrowed(rows)))
            if self.best is not None or self._effort.spent or max(instance.sizes()) <= most:
                break
        return self.promising(instance)

    def improve(self, search: Search) -> None:
        """Keep the result of a beam search if it is better."""
        better = search.beam(_BEAM_WIDTH, self.below)
        if better is not None:
            self._keep(better)

    def search(self, instance: Instance) -> Search:
        """Return a search over the deployments of an instance."""
        return Search(
            instance,
            self._goal,
            objective=self._forms,
            limits=self._limits(instance),
            in_order=self._in_order,
            effort=self._effort,
        )

    def _ranks(self, instance: Instance) -> list[Floats]:
        """Return a lower bound on a deployment with each configuration."""
        floor, weight = instance.least_downtime_ms, self._goal.downtime
        return [d.least + weight * np.maximum(d.downtime_ms, floor) for d in instance.domains]

    def _limits(self, instance: Instance) -> list[Form]:
        below = self.below - self._goal.downtime * instance.least_downtime_ms
        return limit_forms(instance, self._goal, self._paths, below=below)

    def _keep(self, found: ValuedDeployment) -> None:
        self.best = found


def _most_useful_first(forms: int, found: list[Floats]) -> tuple[Ints, int]:
    """Return the forms by how often each is the best bound, and how many ever are."""
    best = np.concatenate([bound[:forms].argmax(axis=0) for bound in found])
    times = np.bincount(best, minlength=forms)
    return np.argsort(-times, kind="stable"), int((times > 0).sum())
