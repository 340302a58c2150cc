"""The most state that each node can keep under the load limit, and which nodes stay in use.

Each node by itself is a knapsack (:mod:`~elastream.planners.free_step.knapsack`): work for weight,
state for profit. At most ``allowed`` nodes keep anything, so all state less the ``allowed`` largest
of these is a lower bound on the state moved: the first rung of free-step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.planners.free_step.contents import best_contents
from elastream.planners.free_step.whole_step import Ints, WholeStep

__all__ = ["Keeping", "keep"]

_ROOM, _ROOM_OF_ALL = 1 << 20, 1 << 24
"""How long the lists of a knapsack may get, and of all together."""


@dataclass(frozen=True, slots=True, eq=False)
class Keeping:
    """The tasks that stay where they are, each node by itself."""

    alone: Ints
    """Their nodes; -1 for tasks that do not fit there with the rest that stays."""
    open_nodes: NDArray[np.bool_]
    """The nodes that may hold tasks afterwards."""
    lower_bound: int
    """No placement moves less state."""

    @property
    def place(self) -> Ints:
        """The nodes of the tasks that stay on open nodes; -1 for all other tasks."""
        stays = (self.alone >= 0) & self.open_nodes[self.alone]
        return np.where(stays, self.alone, -1)


def keep(step: WholeStep, worth: Ints | None = None) -> Keeping:
    """Return what each node can keep; the nodes that keep most stay open.

    With ``worth``, the nodes worth most stay open: a task that finds no room elsewhere may be
    worth more to its node than its state.
    """
    none = np.zeros(0, dtype=np.int64)
    room = min(_ROOM, _ROOM_OF_ALL // step.holders)
    best = best_contents(step, step.state, 1, none, room=room)
    alone = np.full(len(step.work), -1)
    alone[best.contents.tasks] = best.contents.kind[best.contents.owner]
    ranked = np.argsort(-(best.most if worth is None else worth), kind="stable")
    open_nodes = np.zeros(len(step.nodes), dtype=np.bool_)
    open_nodes[ranked[: step.allowed]] = True
    return Keeping(alone, open_nodes, best.bound)
