"""Large steps: prices on the tasks that find no room, and the placement that the prices lead to.

Most tasks of a large step stay where they are, and most that move find room somewhere. What costs
is a few heavy tasks: no node has room for them unless it gives up others. So only tasks that a
relaxation leaves without room, and that are heavy, get a price (the dual values of
:mod:`~elastream.placement.free_step.content_shares`); the others keep their first price, their
state or nothing where they have a copy, which only weakens the bound. Each round

1. finds the cheapest mixture of the contents known so far,
2. adds the heavy tasks that it leaves uncovered to the priced ones,
3. adds the best contents for its prices (column generation, Gilmore and Gomory 1961) and keeps the
   prices of the best bound (:mod:`~elastream.placement.free_step.contents`); the prices tried lie
   between those and the new ones, which swing less (Wentges 1997).

From time to time the mixture is made a placement: every node takes its largest share, tasks that
no node took are settled, and moved tasks return home where they can. The mixture is mostly whole,
and then so is the proof. Where it is split, an integer program chooses among the contents. When
nothing is left to add, lighter tasks are priced.

Cost: a round takes O(nodes (priced + tasks a node)) for the knapsacks and a linear program with a
row for each priced task and each node. Both are counted in inner steps, and the search ends when
that many are used up: the same on every machine. So are the branches of the integer programs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastream.placement.free_step.content_shares import Floats, Mixture, mixture, whole_mixture
from elastream.placement.free_step.contents import Contents, best_contents, contents_of
from elastream.placement.free_step.keeping import Keeping
from elastream.placement.free_step.largest_shares import largest_shares
from elastream.placement.free_step.packing import return_home, settle
from elastream.placement.free_step.whole_step import Answer, Ints, WholeStep

_STEPS = 320_000_000
"""Inner steps for prices and mixtures: two or three seconds."""
_DENSER = 8
"""If tasks have copies, contents contain this many times as many priced tasks, and a pivot takes as
much longer."""
_PACKING_STEPS = 10_000_000
"""Inner steps for each placement."""
_ROUNDS, _ROUNDS_A_PLACEMENT = 200, 8
_HEAVY, _LIGHTER = 8, 3
"""Tasks over this part of the capacity are priced first, then tasks lighter by this factor."""
_MOST_PRICED = 2000
_ROOM = 1 << 16
"""Length of the lists that a knapsack may build."""
_GUESTS = 10
"""Number of nodes a task is offered to per round: those that gain most by it."""
_INERTIA = 0.3
"""Weight of the best prices so far in the prices tried first."""
_FEW = 10
"""If these lead to fewer new contents, the new prices are tried unchanged."""
_LARGEST, _FINEST = 1 << 61, 1 << 20
"""Sums of prices stay below the first; a unit of state has the second number of fractions."""
_PROGRAMS = 2
_NO_GAIN = 1e-10
"""Gains below this part of the fine are rounding errors of the solver."""
_WHOLE, _UNCOVERED = 1 - 1e-6, 1e-6
"""Shares above the first count as whole, below the second as zero."""


def scarce_room(step: WholeStep, kept: Keeping, known: Answer, *, effort: float) -> Answer:
    """Return the best placement and bound found; ``effort`` limits each integer program."""
    search = _Search.beginning(step, kept, known, effort)
    for number in range(1, _ROUNDS + 1):
        mixed = search.mix()
        if mixed is None:
            break
        grown = search.generate(mixed)
        heavier = search.price_uncovered(mixed)
        done = not grown and not heavier
        if done or number % _ROUNDS_A_PLACEMENT == 0 or search.steps_left <= 0:
            search.place(mixed.share)
        if search.known.gap(step) == 0 or (done and not search.refine(mixed)):
            break
    return search.known


@dataclass(slots=True, eq=False)
class _Search:
    """Results so far, and the remaining effort."""

    step: WholeStep
    known: Answer
    contents: Contents
    """First what each holder keeps alone."""
    default: Ints
    """The content of each holder if the program chooses no other."""
    priced: Ints
    heavy: float
    """Tasks of more work than this are priced if they are not covered."""
    fine: int
    fractions: int
    price: Ints
    """The prices of the best bound so far, in fractions of a unit of state."""
    bound: int
    """That bound, in fractions."""
    effort: float
    programs_left: int
    """None if tasks have copies: with that many contents of no cost they take too long."""
    steps_left: int

    @classmethod
    def beginning(cls, step: WholeStep, kept: Keeping, known: Answer, effort: float) -> _Search:
        total = int(step.state.sum())
        most_priced = min(len(step.work), _MOST_PRICED)
        fractions = max(1, min(_FINEST, _LARGEST // ((most_priced + 1) * (total + 1))))
        heavy = step.capacity / _HEAVY
        homeless = kept.place < 0
        if known.place is not None:
            homeless |= step.moved(known.place)
        return cls(
            step=step,
            known=known,
            contents=_first_contents(step, kept, known.place),
            default=np.arange(step.holders),
            priced=_heaviest(step, np.flatnonzero(homeless & (step.work > heavy)), _MOST_PRICED),
            heavy=heavy,
            fine=min(2 * int(step.state.max()), total) + 1,
            fractions=fractions,
            price=kept.price * fractions,
            bound=kept.lower_bound * fractions,
            effort=effort,
            programs_left=0 if step.copied.any() else _PROGRAMS,
            steps_left=_STEPS // _DENSER if step.copied.any() else _STEPS,
        )

    def mix(self) -> Mixture | None:
        """Return the cheapest mixture; its whole contents become the default."""
        if self.steps_left <= 0:
            return None
        mixed = mixture(
            self.step,
            self.contents,
            self.default,
            self.priced,
            fine=self.fine,
            most_steps=self.steps_left,
        )
        if mixed is not None:
            self.steps_left -= mixed.steps
            held = np.flatnonzero((mixed.share > _WHOLE) & (self.contents.kind < self.step.holders))
            self.default[self.contents.kind[held]] = held
        return mixed

    def generate(self, mixed: Mixture) -> bool:
        """Add the contents that the prices make attractive; return whether there were any."""
        dual = self.step.first_price * self.fractions
        dual_prices = np.rint(mixed.price[self.priced] * self.fractions).astype(np.int64)
        dual[self.priced] = np.maximum(dual_prices, dual[self.priced])  # less would prove less
        between = dual + np.rint(_INERTIA * (self.price - dual)).astype(np.int64)
        count = self._generate_at(between, mixed)
        if count < _FEW:
            count += self._generate_at(dual, mixed)
        lower_bound = -(-self.bound // self.fractions)
        self.known = self.known.joined(Answer(None, lower_bound), self.step)
        return count > 0

    def _generate_at(self, price: Ints, mixed: Mixture) -> int:
        """Add the best contents for the prices that would lower the cost of the mixture."""
        step = self.step
        best = best_contents(
            step, price, self.fractions, self.priced, room=_ROOM, known=self.contents
        )
        self.steps_left -= best.steps
        if best.bound > self.bound:
            self.bound, self.price = best.bound, price
        gain = best.contents.worth(step, mixed.price) - mixed.rent[best.contents.kind]
        useful = np.flatnonzero(gain > _NO_GAIN * self.fine)
        ranked = useful[np.argsort(-gain[useful], kind="stable")]
        offered = _offered(step, best.contents, ranked)
        self.contents = self.contents.joined(best.contents.chosen(offered))
        return len(offered)

    def price_uncovered(self, mixed: Mixture) -> bool:
        """Price the heavy tasks that the mixture leaves uncovered; return whether there are any."""
        uncovered = self._uncovered(mixed)
        heavy = uncovered[self.step.work[uncovered] > self.heavy]
        heaviest = _heaviest(self.step, heavy, _MOST_PRICED - len(self.priced))
        self.priced = np.concatenate([self.priced, heaviest])
        return len(heaviest) > 0

    def place(self, share: Floats) -> None:
        """Turn the mixture into a placement."""
        place, open_nodes = largest_shares(self.step, self.contents, share)
        place = settle(self.step, place, open_nodes, steps=_PACKING_STEPS)
        if place.min() >= 0:
            place = return_home(self.step, place, open_nodes, steps=_PACKING_STEPS)
            self.known = self.known.joined(Answer(place, 0), self.step)

    def refine(self, mixed: Mixture) -> bool:
        """Continue when no content or heavy task is left to add; return whether this did anything.

        Raise the fine while tasks pay it; choose whole contents; or price lighter tasks.
        """
        highest = int(self.step.state.sum()) + 1
        if mixed.uncovered > _UNCOVERED and self.fine < highest:
            self.fine = min(8 * self.fine, highest)
            return True
        if not mixed.whole and self.programs_left:
            self._choose_whole()
        heaviest = self.step.work[self._uncovered(mixed)].max(initial=0)
        self.heavy = heaviest / _LIGHTER
        return self.known.gap(self.step) > 0 and self.price_uncovered(mixed)

    def _choose_whole(self) -> None:
        """Choose among the contents without splitting any, and turn the choice into a placement."""
        self.programs_left -= 1
        share = whole_mixture(
            self.step,
            self.contents,
            self.default,
            self.priced,
            effort=self.effort,
        )
        if share is not None:
            self.place(share)

    def _uncovered(self, mixed: Mixture) -> Ints:
        """Return the tasks without a price that the mixture does not fully cover."""
        share = np.append(mixed.share, np.zeros(len(self.contents.kind) - len(mixed.share)))
        covered = np.bincount(
            self.contents.tasks,
            weights=share[self.contents.owner],
            minlength=len(self.step.work),
        )
        covered[self.priced] = 1
        return np.flatnonzero(covered < 1 - _UNCOVERED)


def _first_contents(step: WholeStep, kept: Keeping, place: Ints | None) -> Contents:
    """Return what each holder keeps by itself, nothing, and what it holds in the placement."""
    tasks = np.flatnonzero(kept.alone >= 0)
    sizes = np.bincount(kept.alone[tasks], minlength=step.holders)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    holders = np.arange(step.holders)
    contents = Contents(tasks[np.argsort(kept.alone[tasks], kind="stable")], ends, holders)
    if len(step.nodes) > step.allowed:
        contents = contents.joined(Contents(tasks[:0], np.zeros_like(ends), holders))
    if place is not None:
        changed = place != kept.alone
        nodes = np.union1d(place[changed], kept.alone[changed])
        held = np.flatnonzero(np.isin(np.unique(place), nodes))
        contents = contents.joined(contents_of(step, place).chosen(held))
    return contents


def _heaviest(step: WholeStep, tasks: Ints, most: int) -> Ints:
    """Return the heaviest of the tasks, at most this many."""
    return tasks[np.argsort(-step.work[tasks], kind="stable")[:most]]


def _offered(step: WholeStep, contents: Contents, ranked: Ints) -> Ints:
    """Return the contents that offer a guest one of its first nodes, in their order."""
    offers = np.zeros(len(step.work), dtype=np.int64)
    offered = []
    for content in ranked.tolist():
        tasks = contents.tasks[contents.ends[content] : contents.ends[content + 1]]
        guests = tasks[step.away(tasks, contents.kind[content])]
        if len(guests) == 0 or offers[guests].min() < _GUESTS:
            offers[guests] += 1
            offered.append(content)
    return np.array(offered, dtype=np.int64)
