"""Simulated annealing of a placement: cheaper exchanges, with overfull nodes in between.

If nodes must be filled almost full, no single move from a good placement to a better one stays
within the capacity; annealing passes through overfull ones. Moves: a task goes to another node,
often home or to a copy of its state, or two tasks are swapped. Each is evaluated in constant time
by the state it moves and the overload it causes, whose price rises as the temperature falls.
Amounts are in units of the mean state of a node, so that one schedule serves all problems. The
random numbers depend only on the seed: the same seed gives the same placement.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.whole_step import Ints, WholeStep
from elastream.placement.kernel import kernel

_HOT, _COLD = 0.2, 0.003
"""First and last temperature, in mean states of a node."""
_CHEAP, _DEAR = 5.0, 50.0
"""First and last price of an overload as large as the capacity, in mean states of a node."""


def anneal(
    step: WholeStep, place: Ints, open_nodes: NDArray[np.bool_], *, trials: int, seed: int
) -> Ints | None:
    """Return the cheapest placement within the capacity seen in this many trials, if any.

    In ``place`` every task has a node; nodes may be overfull.
    """
    sweeps = max(1, trials // len(place))
    best = place.copy()
    found = _anneal.for_operations(20.0 * trials)(
        step.work,
        step.state,
        step.home,
        step.copies,
        place.copy(),
        best,
        np.flatnonzero(open_nodes),
        step.loads(place),
        step.capacity,
        sweeps,
        seed + 1,
    )
    return best if found else None


@kernel
def _anneal(
    work: Ints,
    state: Ints,
    home: Ints,
    copies: Ints,
    place: Ints,
    best: Ints,
    nodes: Ints,
    loads: Ints,
    capacity: int,
    sweeps: int,
    random: int,
) -> bool:
    """Write the cheapest placement that fits to ``best``; return whether there was one."""
    tasks, columns = copies.shape
    unit = len(nodes) / max(1.0, float(state.sum()))
    is_open = np.zeros(len(loads), dtype=np.bool_)
    is_open[nodes] = True
    cost, overfull = 0, 0
    for task in range(tasks):
        if not at_home(task, place[task], home, copies):
            cost += state[task]
    for node in nodes:
        overfull += loads[node] > capacity
    found = overfull == 0
    least = cost
    heat, dear = _HOT, _CHEAP
    for _ in range(sweeps):
        for _ in range(tasks):
            random = random * 48271 % 2147483647  # Park and Miller's generator
            task = random % tasks
            source = place[task]
            random = random * 48271 % 2147483647
            kind = random % 8
            random = random * 48271 % 2147483647
            other = -1
            if kind == 0:
                target = nodes[random % len(nodes)]
            elif kind == 1:
                target = home[task]
                if columns > 0 and random % (columns + 1) > 0:
                    target = copies[task, random % (columns + 1) - 1]
                    target = home[task] if target < 0 else target
            else:
                other = random % tasks
                target = place[other]
            if target == source or not is_open[target]:
                continue
            moved = work[task]
            dearer = 0
            if at_home(task, source, home, copies):
                dearer += state[task]
            if at_home(task, target, home, copies):
                dearer -= state[task]
            if other >= 0:
                moved -= work[other]
                if at_home(other, target, home, copies):
                    dearer += state[other]
                if at_home(other, source, home, copies):
                    dearer -= state[other]
            after, target_load = loads[source] - moved, loads[target] + moved
            over = max(0, after - capacity) + max(0, target_load - capacity)
            over -= max(0, loads[source] - capacity) + max(0, loads[target] - capacity)
            change = dearer * unit + dear * over / capacity
            if change > 0:
                random = random * 48271 % 2147483647
                if change > 20 * heat or random > 2147483647 * math.exp(-change / heat):
                    continue
            for load in (loads[source], loads[target]):
                overfull -= load > capacity
            for load in (after, target_load):
                overfull += load > capacity
            loads[source], loads[target] = after, target_load
            cost += dearer
            place[task] = target
            if other >= 0:
                place[other] = source
            if overfull == 0 and (cost < least or not found):
                found, least = True, cost
                best[:] = place
        heat *= (_COLD / _HOT) ** (1.0 / sweeps)
        dear *= (_DEAR / _CHEAP) ** (1.0 / sweeps)
    return found


@kernel
def at_home(task: int, node: int, home: Ints, copies: Ints) -> bool:
    """Return whether the task loads no state on the node."""
    there = home[task] == node
    for column in range(copies.shape[1]):
        there = there or copies[task, column] == node
    return bool(there)
