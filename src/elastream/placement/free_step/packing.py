"""Pack displaced tasks into the room that others leave, moving little more.

Model: some tasks are placed, the rest are not; all nodes have one capacity and a given set of them
is open. :func:`settle` places the rest. A task that fits nowhere ejects others from a node, those
whose removal costs least, and they are placed in turn: the guided ejection search of Nagata and
Bräysy (2009), whose penalties make a task that was hard to place hard to eject. :func:`return_home`
then lowers the cost: a moved task returns if there is room, or if ejecting one cheaper task makes
room and that one fits elsewhere. :func:`level` spreads tasks that move anyway over the emptiest
nodes, at no cost, and leaves those at home that need not move.

A task is at home where it was and where a copy of its state is.

Nothing is proven here: tasks that are not settled may still fit.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.ejection import eject, go_home
from elastream.placement.free_step.whole_step import Ints, WholeStep

_STEPS = 100_000_000
"""Maximum inner steps of a search; a second or less when compiled."""
_EJECTIONS_A_TASK = 2000


def settle(
    step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_], *, steps: int = _STEPS
) -> Ints:
    """Return ``place`` with its unplaced tasks (-1) on open nodes, or some of them still unplaced.

    Placed tasks may be ejected to make room, within this number of inner steps.
    """
    place = _join_copies(step, place, open_nodes)
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
            step.copies,
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
    moved = int(step.moved(place).sum())
    go_home.for_operations(float(len(place) + moved * len(open_nodes)))(
        step.work, step.state, step.home, step.copies, better, loads, open_nodes, step.capacity,
        steps,
    )  # fmt: skip
    return better


def level(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_]) -> Ints:
    """Return a placement of the same cost or less, and no higher maximum load.

    Tasks without state, and those that could go to a copy, stay at home if that makes no node the
    fullest. Tasks that go to a copy return first, as far as the capacity allows: that may make a
    node the fullest.
    """
    place = _leave_copies(step, place, open_nodes)
    highest = int(step.loads(place).max())
    stays = ~step.moved(place)
    spread = _spread(step, np.where(stays, place, -1), open_nodes, highest)
    if spread.min() < 0:
        spread = place.copy()
    travels = np.flatnonzero((spread != step.home) & open_nodes[step.home])
    return _put_home(step, spread, travels, int(step.loads(spread).max()))


def crowd(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_]) -> Ints:
    """Place the unplaced tasks on the nodes with the least load, even if that overfills them."""
    return _spread(step, place, open_nodes, int(step.work.sum()))


def _spread(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_], capacity: int) -> Ints:
    """Place the unplaced tasks, heaviest first, each on the node with the least load."""
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


def _join_copies(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_]) -> Ints:
    """Place unplaced tasks on open nodes that have a copy of their state and room, large first."""
    placed, loads = place.copy(), step.loads(place)
    missing = np.flatnonzero((place < 0) & step.copied)
    for task in missing[np.argsort(-step.state[missing], kind="stable")].tolist():
        for node in (step.home[task], *step.copies[task]):
            fits = node >= 0 and open_nodes[node]
            if fits and loads[node] + step.work[task] <= step.capacity:
                placed[task] = node
                loads[node] += step.work[task]
                break
    return placed


def _leave_copies(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_]) -> Ints:
    """Return tasks home that go to a copy of their state, large ones first."""
    travels = np.flatnonzero((place != step.home) & ~step.moved(place) & open_nodes[step.home])
    largest = travels[np.argsort(-step.state[travels], kind="stable")]
    return _put_home(step, place, largest, step.capacity)


def _put_home(step: WholeStep, place: Ints, tasks: Ints, most: int) -> Ints:
    """Return the tasks home, in this order, while that puts no node above ``most``.

    If tasks have copies, every task that can return does.
    """
    place, loads = place.copy(), step.loads(place)
    again = True
    while again:
        again = False
        for task in tasks[place[tasks] != step.home[tasks]]:
            home = step.home[task]
            if loads[home] + step.work[task] <= most:
                loads[place[task]] -= step.work[task]
                loads[home] += step.work[task]
                place[task] = home
                again = bool(step.copied.any())
    return place
