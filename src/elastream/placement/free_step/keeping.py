"""The most state that each node can keep under the load limit, and the nodes that stay in use.

Each node alone is a knapsack (:mod:`~elastream.placement.free_step.knapsack`): work is the weight,
state the profit. At most ``allowed`` nodes keep anything, so all state minus the ``allowed``
largest of these is a lower bound on the state moved: the first rung of free-step.

With copies, a node keeps the state of its tasks and of those it has a copy of. The state that a
placement need not load is, node by node, in one of these larger knapsacks, so the bound holds.
Several of them may count the same task, which makes it weak. The other bound tried lets tasks with
copies cost nothing and take no room: the same bound for all other tasks alone. Both are the bound
of :mod:`~elastream.placement.free_step.contents` at some prices. The tasks that stay are
nevertheless computed without copies: tasks that can stay at home should. A node whose tasks have
copies elsewhere closes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.contents import best_contents
from elastream.placement.free_step.whole_step import Ints, WholeStep

_ROOM, _ROOM_OF_ALL = 1 << 20, 1 << 24
"""Maximum length of the lists of one knapsack, and of all together."""


@dataclass(frozen=True, slots=True, eq=False)
class Keeping:
    """The tasks that stay, computed for each node separately."""

    alone: Ints
    """Their nodes; -1 for tasks that do not fit there with the others that stay."""
    open_nodes: NDArray[np.bool_]
    """The nodes that may hold tasks afterwards."""
    lower_bound: int
    """No placement moves less state."""
    price: Ints
    """The prices of the tasks that prove the bound."""

    @property
    def place(self) -> Ints:
        """The nodes of the tasks that stay on open nodes; -1 for all other tasks."""
        stays = (self.alone >= 0) & self.open_nodes[self.alone]
        return np.where(stays, self.alone, -1)


def keep(step: WholeStep, worth: Ints | None = None) -> Keeping:
    """Return what each node can keep; the nodes that keep most stay open.

    With ``worth``, the nodes worth most stay open: a task without room elsewhere may be worth more
    to its node than its state.
    """
    none = np.zeros(0, dtype=np.int64)
    room = min(_ROOM, _ROOM_OF_ALL // step.holders)
    at_home = replace(step, copies=step.copies[:, :0])
    best = best_contents(at_home, step.state, 1, none, room=room)
    alone = np.full(len(step.work), -1)
    alone[best.contents.tasks] = best.contents.kind[best.contents.owner]
    bound, price, value = best.bound, step.state, best.most
    if step.copied.any():
        bounds = [
            (best_contents(step, price, 1, none, room=room).bound, price)
            for price in (step.first_price, step.state)
        ]
        bound, price = max(bounds, key=lambda each: each[0])
        value = _order_of_closing(step, best.most)
    ranked = np.argsort(-(value if worth is None else worth), kind="stable")
    open_nodes = np.zeros(len(step.nodes), dtype=np.bool_)
    open_nodes[ranked[: step.allowed]] = True
    return Keeping(alone, open_nodes, max(0, bound), price)


def _order_of_closing(step: WholeStep, most: Ints) -> Ints:
    """Return when each node should close: 0 for the first; those that stay open share the last.

    The next to close is the one with the least state that no other open node has, then the one that
    keeps ``most`` least. O(pairs of task and copy) for each.
    """
    closing = len(step.nodes) - step.allowed
    order = np.full(len(step.nodes), closing)
    own, nodes = step.own
    left = np.bincount(own, minlength=len(step.work))
    for turn in range(closing):
        last = left[own] == 1
        loss = np.zeros(len(step.nodes), dtype=np.int64)
        np.add.at(loss, nodes[last], step.state[own[last]])
        loss[order < closing] = loss.max() + 1
        first = np.lexsort((-np.arange(len(order)), most, loss))[0]
        order[first] = turn
        left -= np.bincount(own[nodes == first], minlength=len(step.work))
        own, nodes = own[nodes != first], nodes[nodes != first]
    return order
