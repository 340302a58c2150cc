"""Contents: sets of tasks that nodes may hold, and the best of them for given prices.

A *content* is a set of tasks that fits on one node. It is for a *kind* of node: for one holder, or
for any idle node, since idle nodes are interchangeable. With a price on every task a content is
worth the prices of its tasks minus the state of those that load it there. The best content of a
node is a knapsack over the node's own tasks, which it holds or has a copy of, and *guests*: tasks
of others whose price exceeds their state. For any prices

  sum of all prices  -  the ``allowed`` largest worths of best contents, one per node

is a lower bound on the state moved (Lagrange): each placement chooses a content for each node, and
every task is in one of them. A task with a copy is in the knapsacks of several nodes, which may all
count it: the bound is valid but weak, and a price below its state makes it stronger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.knapsack import knapsacks
from elastream.placement.free_step.whole_step import Ints, WholeStep

_ROUNDS = 10
"""With guests, prices are still changing, and at least this many calls are expected."""


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Some contents, numbered."""

    tasks: Ints
    """The tasks of the first, then of the second, and so on."""
    ends: Ints
    """Content c is ``tasks[ends[c]:ends[c + 1]]``; one entry more than there are contents."""
    kind: Ints
    """The holder of each, or ``holders`` for any idle node."""

    @property
    def owner(self) -> Ints:
        """The content to which each entry of ``tasks`` belongs."""
        return np.repeat(np.arange(len(self.kind)), np.diff(self.ends))

    def joined(self, other: Contents) -> Contents:
        """Return these contents, then the others."""
        return Contents(
            np.concatenate([self.tasks, other.tasks]),
            np.concatenate([self.ends, self.ends[-1] + other.ends[1:]]),
            np.concatenate([self.kind, other.kind]),
        )

    def chosen(self, contents: Ints) -> Contents:
        """Return some of the contents, in rising order of their numbers."""
        sizes = np.diff(self.ends)
        wanted = np.zeros(len(sizes), dtype=np.bool_)
        wanted[contents] = True
        ends = np.concatenate([[0], np.cumsum(sizes[wanted])])
        return Contents(self.tasks[np.repeat(wanted, sizes)], ends, self.kind[wanted])

    def worth(self, step: WholeStep, price: NDArray[Any], fractions: int = 1) -> NDArray[Any]:
        """Return the worth of each content at the prices, in fractions of a unit of state."""
        away = step.away(self.tasks, self.kind[self.owner])
        worth = price[self.tasks] - np.where(away, fractions * step.state[self.tasks], 0)
        sums = np.zeros(len(worth) + 1, dtype=worth.dtype)
        np.cumsum(worth, out=sums[1:])
        return sums[self.ends[1:]] - sums[self.ends[:-1]]


@dataclass(frozen=True, slots=True, eq=False)
class BestContents:
    """The best content of every node, for some prices."""

    contents: Contents
    """One per holder, in order; then some for idle nodes with no task in common."""
    bound: int
    """No placement moves less, in fractions of a unit of state."""
    most: Ints
    """Maximum worth of the content of each node, in fractions; ``step.nodes`` in order."""
    steps: int
    """Inner steps that the search took."""


def best_contents(
    step: WholeStep,
    price: Ints,
    fractions: int,
    guests: Ints,
    *,
    room: int,
    known: Contents | None = None,
) -> BestContents:
    """Return the best content of each node.

    Prices are in ``fractions`` of a unit of state. Only ``guests`` may be placed where they load
    state. Each knapsack may build lists of length ``room``. For a node without a content better
    than the ``known`` ones an empty one is returned.
    """
    least = np.zeros(step.holders + 1, dtype=np.int64)
    if known is not None:
        np.maximum.at(least, known.kind, known.worth(step, price, fractions))
    abroad = price - step.state * fractions
    guests = guests[abroad[guests] > 0]
    guests = guests[np.argsort(-_rate(abroad[guests], step.work[guests]), kind="stable")]
    own, nodes = step.own
    own = own[np.lexsort((-_rate(price, step.work)[own], nodes))]
    first = np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=step.holders))])
    operations = 64.0 * len(own)
    if len(guests):
        operations = _ROUNDS * (operations + 64.0 * step.holders * len(guests))
    solve = knapsacks.for_operations(operations)
    tasks, ends, most, steps = solve(
        step.work, price, abroad, own, first, guests, least, step.capacity, room
    )
    contents = Contents(tasks, ends, np.arange(step.holders))
    worth = np.zeros(step.idle, dtype=np.int64)
    no_tasks, whole = own[:0], np.zeros(2, dtype=np.int64)
    for copy in range(step.idle):
        tasks, ends, (best,), more = solve(
            step.work, price, abroad, no_tasks, whole, guests, least[-1:], step.capacity, room
        )
        steps += more
        if copy == 0:
            worth[:] = best
            least[-1] = 0
        if len(tasks) == 0:
            break
        contents = contents.joined(Contents(tasks, ends, np.array([step.holders])))
        guests = guests[~np.isin(guests, tasks)]
    most = np.concatenate([most, worth])
    used = np.sort(most)[::-1][: step.allowed]
    return BestContents(contents, int(price.sum()) - int(used.sum()), most, steps)


def contents_of(step: WholeStep, place: Ints) -> Contents:
    """Return the content of each node of a placement, in the order of nodes; it may be empty."""
    placed = np.flatnonzero(place >= 0)
    tasks = placed[np.argsort(place[placed], kind="stable")]
    nodes, sizes = np.unique(place[placed], return_counts=True)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return Contents(tasks, ends, np.minimum(nodes, step.holders))


def _rate(worth: Ints, work: Ints) -> NDArray[np.float64]:
    """Return worth per work; items with worth and no work come first."""
    return np.where(work > 0, worth / np.maximum(work, 1), np.where(worth > 0, np.inf, 0.0))
