"""The most state that each node can keep under the load limit, and the nodes that stay in use.

Each node alone is a knapsack (:mod:`~elastream.placement.free_step.knapsack`): work is the weight,
state the profit. At most ``allowed`` nodes keep anything, so all state minus the ``allowed``
largest of these is a lower bound on the state moved.

With copies, a node keeps the state of its tasks and of those it has a copy of. The state that a
placement need not load is, node by node, in one of these larger knapsacks, so the bound holds.
Several of them may count the same task, which makes it weak. The other bound tried lets tasks with
copies cost nothing and take no room: the same bound for all other tasks alone. The tasks that stay
are nevertheless computed without copies: tasks that can stay at home should. A node whose tasks
have copies elsewhere closes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.knapsack import knapsacks
from elastream.placement.free_step.whole_step import Ints, WholeStep

_ROOM, _ROOM_OF_ALL = 1 << 20, 1 << 24
"""Maximum length of the lists of one knapsack, and of all together."""
_OPERATIONS = 64.0
"""Inner steps per task."""


@dataclass(frozen=True, slots=True, eq=False)
class Keeping:
    """The tasks that stay, computed for each node separately."""

    alone: Ints
    """Their nodes; -1 for tasks that do not fit there with the others that stay."""
    open_nodes: NDArray[np.bool_]
    """The nodes that may hold tasks afterwards."""
    lower_bound: int
    """No placement moves less state."""
    most: Ints
    """The most state that each node can keep, copies included."""

    @property
    def place(self) -> Ints:
        """The nodes of the tasks that stay on open nodes; -1 for all other tasks."""
        stays = (self.alone >= 0) & self.open_nodes[self.alone]
        return np.where(stays, self.alone, -1)


def keep(step: WholeStep) -> Keeping:
    """Return what each node can keep; the nodes that keep most stay open."""
    alone, most = _kept(step, np.arange(len(step.work)), step.home, step.state)
    value = most
    bound = _bound(step, most, step.state)
    if step.copied.any():
        _, most = _kept(step, *step.own, step.state)
        uncopied = np.where(step.copied, 0, step.state)
        _, others = _kept(step, np.arange(len(step.work)), step.home, uncopied)
        bound = max(_bound(step, most, step.state), _bound(step, others, uncopied))
        value = _order_of_closing(step, value)
    open_nodes = np.zeros(len(step.nodes), dtype=np.bool_)
    open_nodes[np.argsort(-value, kind="stable")[: step.allowed]] = True
    return Keeping(alone, open_nodes, bound, most)


def _bound(step: WholeStep, most: Ints, state: Ints) -> int:
    """Return what no placement can keep of the state, if the nodes keep at most this much."""
    return max(0, int(state.sum()) - int(np.sort(most)[::-1][: step.allowed].sum()))


def _kept(step: WholeStep, own: Ints, nodes: Ints, state: Ints) -> tuple[Ints, Ints]:
    """Return the node that keeps each task, or -1, and the most state that each node keeps.

    ``own`` are the tasks that may stay, ``nodes`` where each may.
    """
    own, nodes = own[state[own] > 0], nodes[state[own] > 0]
    rate = np.where(step.work > 0, state / np.maximum(step.work, 1), np.inf)
    order = np.lexsort((-rate[own], nodes))
    own, nodes = own[order], nodes[order]
    first = np.searchsorted(nodes, np.arange(len(step.nodes) + 1))
    solve = knapsacks.for_operations(_OPERATIONS * len(own))
    room = min(_ROOM, _ROOM_OF_ALL // step.holders)
    taken, most = solve(step.work[own], state[own], first, step.capacity, room)
    place = np.full(len(step.work), -1)
    place[own[taken]] = nodes[taken]
    return place, most


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
