"""Packs tasks that have lost their node into the room that others leave, moving little more.

Model: some tasks are placed, the rest are not; nodes have one capacity and a given set of them
is open. :func:`settle` places the rest. A task that fits nowhere pushes others out of a node,
those whose removal costs least, and they are placed in turn: the guided ejection search
of Nagata and Bräysy (2009), whose penalties make a task that was hard to place hard to push out.
:func:`return_home` then lowers the cost: a moved task goes back where it came from if there is
room, or if pushing out one cheaper task makes room and that one fits elsewhere.
:func:`level` moves tasks that travel anyway to the emptiest nodes, which costs nothing.

No proof is made here: what does not settle may still fit.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from elastream.planners.free_step.ejection import eject, go_home
from elastream.planners.free_step.whole_step import Ints, WholeStep

__all__ = ["crowd", "level", "return_home", "settle"]

_STEPS = 100_000_000
"""Inner steps that a search may take; a second or less when compiled."""
_EJECTIONS_A_TASK = 2000


def settle(
    step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_], *, steps: int = _STEPS
) -> Ints:
    """Return ``place`` with its unplaced tasks (-1) on open nodes, or some of them still unplaced.

    Tasks that were placed may be pushed out to make room, in so many inner steps at most.
    """
    start = _spread(step, place, open_nodes, step.capacity)
    if start.min() >= 0:
        return start
    tasks, nodes = len(place), len(open_nodes)
    missing = int((place < 0).sum())
    for ejections in (missing, _EJECTIONS_A_TASK * tasks):
        expected = float(tasks + (missing + ejections) * (nodes + tasks / nodes))
        settled, loads = place.copy(), step.loads(place)
        left = eject.for_operations(min(expected, steps))(
            step.work,
            step.state,
            step.home,
            settled,
            loads,
            open_nodes,
            step.capacity,
            ejections,
            steps,
        )
        if left == 0:
            break
    return settled


def return_home(
    step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_], *, steps: int = _STEPS
) -> Ints:
    """Return a placement that costs no more than ``place``, where every task has a node."""
    better, loads = place.copy(), step.loads(place)
    moved = int((place != step.home).sum())
    go_home.for_operations(float(len(place) + moved * len(open_nodes)))(
        step.work, step.state, step.home, better, loads, open_nodes, step.capacity, steps
    )
    return better


def level(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_]) -> Ints:
    """Return a placement of the same cost or less, and no higher maximum load.

    Tasks of no size stay at home where that makes no node the fullest.
    """
    highest = int(step.loads(place).max())
    stays = place == step.home
    spread = _spread(step, np.where(stays, place, -1), open_nodes, highest)
    if spread.min() < 0:
        spread = place.copy()
    loads = step.loads(spread)
    highest = int(loads.max())
    for task in np.flatnonzero((spread != step.home) & open_nodes[step.home]):
        home = step.home[task]
        if loads[home] + step.work[task] <= highest:
            loads[spread[task]] -= step.work[task]
            loads[home] += step.work[task]
            spread[task] = home
    return spread


def crowd(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_]) -> Ints:
    """Return ``place`` with the unplaced tasks on the nodes that hold least, overfull or not."""
    return _spread(step, place, open_nodes, int(step.work.sum()))


def _spread(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_], capacity: int) -> Ints:
    """Place the unplaced tasks, heaviest first, each on the node that holds the least."""
    spread, loads = place.copy(), step.loads(place)
    heap = [(int(loads[node]), int(node)) for node in np.flatnonzero(open_nodes)]
    heapq.heapify(heap)
    missing = np.flatnonzero(place < 0)
    for task in missing[np.argsort(-step.work[missing], kind="stable")].tolist():
        load, node = heap[0]
        load += int(step.work[task])
        if load > capacity:
            return spread
        spread[task] = node
        heapq.heapreplace(heap, (load, node))
    return spread
