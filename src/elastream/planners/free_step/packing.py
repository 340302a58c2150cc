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

from elastream.planners.free_step.whole_step import Ints, WholeStep
from elastream.planners.kernel import kernel

__all__ = ["crowd", "level", "return_home", "settle"]

_EJECTION_EFFORT = 150_000_000
"""Inner steps that an ejection search may take; a second or less when compiled."""
_EJECTIONS_A_TASK = 2000


def settle(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_]) -> Ints:
    """Return ``place`` with its unplaced tasks (-1) on open nodes, or some of them still unplaced.

    Tasks that were placed may be pushed out to make room.
    """
    start = _spread(step, place, open_nodes, step.capacity)
    if start.min() >= 0:
        return start
    tasks, nodes = len(place), len(open_nodes)
    missing = int((place < 0).sum())
    most = min(_EJECTIONS_A_TASK * tasks, _EJECTION_EFFORT // (20 * tasks + nodes))
    for ejections in (missing, most):
        effort = float(missing * nodes + ejections * (tasks + nodes))
        settled, loads = place.copy(), step.loads(place)
        left = _eject.for_operations(effort)(
            step.work, step.state, step.home, settled, loads, open_nodes, step.capacity, ejections
        )
        if left == 0:
            break
    return settled


def return_home(step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_]) -> Ints:
    """Return a placement that costs no more than ``place``, where every task has a node."""
    better, loads = place.copy(), step.loads(place)
    moved = int((place != step.home).sum())
    effort = float(moved * (len(place) + len(open_nodes)))
    _go_home.for_operations(effort)(
        step.work, step.state, step.home, better, loads, open_nodes, step.capacity
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


@kernel
def _eject(
    work: Ints,
    state: Ints,
    home: Ints,
    place: Ints,
    loads: Ints,
    open_nodes: NDArray[np.bool_],
    capacity: int,
    ejections: int,
) -> int:
    """Place the tasks at -1, changing ``place`` and ``loads``; return how many are left over."""
    tasks, nodes = len(work), len(open_nodes)
    waiting = np.argsort(work)
    left = 0
    for task in waiting:
        if place[task] < 0:
            waiting[left] = task
            left += 1
    penalty = np.ones(tasks)
    mean = max(1.0, state.sum() / tasks)
    price = np.zeros(tasks)  # of pushing a task out
    member = np.zeros(tasks, dtype=np.int64)  # the placed tasks, node by node
    first = np.zeros(nodes + 1, dtype=np.int64)  # where each node's begin
    chosen = np.zeros(tasks, dtype=np.int64)
    while left > 0:
        task = waiting[left - 1]
        load = work[task]
        target = -1
        if open_nodes[home[task]] and loads[home[task]] + load <= capacity:
            target = home[task]
        else:
            for node in range(nodes):
                fits = open_nodes[node] and loads[node] + load <= capacity
                if fits and (target < 0 or loads[node] > loads[target]):
                    target = node
        if target >= 0:
            place[task] = target
            loads[target] += load
            left -= 1
            continue
        if ejections == 0:
            return left
        ejections -= 1
        penalty[task] += 1

        first[:] = 0
        for other in range(tasks):
            if place[other] >= 0:
                first[place[other]] += 1
                loss = float(state[other]) if home[other] == place[other] else 0.0
                price[other] = penalty[other] * (loss + mean * work[other] / capacity)
        for node in range(nodes):
            first[node + 1] += first[node]
        for other in range(tasks):
            if place[other] >= 0:
                first[place[other]] -= 1
                member[first[place[other]]] = other
        least = np.inf
        count = 0
        for node in range(nodes):
            if not open_nodes[node]:
                continue
            short = loads[node] + load - capacity
            paid = -float(state[task]) if home[task] == node else 0.0
            begin = now = first[node]
            while paid < least:
                enough, part = -1, -1  # cheapest that makes room alone; cheapest for its work
                for a in range(now, first[node + 1]):
                    other = member[a]
                    if work[other] >= short:
                        if enough < 0 or price[other] < price[member[enough]]:
                            enough = a
                    elif work[other] > 0 and (
                        part < 0
                        or price[other] / work[other] < price[member[part]] / work[member[part]]
                    ):
                        part = a
                if enough >= 0 and paid + price[member[enough]] < least:
                    least = paid + price[member[enough]]
                    target = node
                    count = now - begin + 1
                    chosen[: count - 1] = member[begin:now]
                    chosen[count - 1] = member[enough]
                if part < 0:
                    break
                member[now], member[part] = member[part], member[now]
                paid += price[member[now]]
                short -= work[member[now]]
                now += 1
        left -= 1
        for other in chosen[:count]:
            place[other] = -1
            loads[target] -= work[other]
            waiting[left] = other
            left += 1
        place[task] = target
        loads[target] += load
    return 0


@kernel
def _go_home(
    work: Ints,
    state: Ints,
    home: Ints,
    place: Ints,
    loads: Ints,
    open_nodes: NDArray[np.bool_],
    capacity: int,
) -> None:
    """Lower the cost of ``place`` until no return of one task lowers it further."""
    tasks = len(work)
    nodes = len(open_nodes)
    order = np.argsort(-state)
    changed = True
    while changed:
        changed = False
        for task in order:
            to, source = home[task], place[task]
            if to == source or state[task] == 0 or not open_nodes[to]:
                continue
            short = loads[to] + work[task] - capacity
            out, out_to = -1, -1
            most = np.int64(0)
            if short > 0:
                for other in range(tasks):
                    if place[other] != to or work[other] < short:
                        continue
                    gain = state[task] - (state[other] if home[other] == to else 0)
                    if gain <= most:
                        continue
                    for node in range(nodes):
                        room = capacity - loads[node] + (work[task] if node == source else 0)
                        if node != to and open_nodes[node] and work[other] <= room:
                            most, out, out_to = gain, other, node
                            break
                if out < 0:
                    continue
                place[out] = out_to
                loads[to] -= work[out]
                loads[out_to] += work[out]
            place[task] = to
            loads[source] -= work[task]
            loads[to] += work[task]
            changed = True
