"""Free steps in microseconds, for simulated futures.

:func:`~elastream.placement.free_step.planner.free_step` proves its plans and takes milliseconds. A
look-ahead makes thousands of steps, so they follow a rule: the nodes with the least load close, an
overfull node releases the tasks with the least state per work, those that fit back return, and the
rest goes to the emptiest node, the heaviest first. O(m log m + m n) per step.
"""

from __future__ import annotations

import numpy as np

from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.placement.kernel import kernel


@kernel
def lazy_step(
    work: Floats, state: Floats, worth: Floats, place: Ints, allowed: int, limit: float, out: Ints
) -> float:
    """Write the new nodes of tasks to ``out``, at most ``allowed``; return the state that moves.

    ``worth`` is the value of keeping each task where it is: its state, or another guess. If tasks
    do not fit the limit, the emptiest node is over it.
    """
    tasks = len(work)
    nodes = max(int(place.max()) + 1, allowed)
    loads = np.zeros(nodes)
    held = np.zeros(nodes)
    opened = np.zeros(nodes, dtype=np.bool_)
    for j in range(tasks):
        loads[place[j]] += work[j]
        held[place[j]] += worth[j]
        opened[place[j]] = True
        out[j] = place[j]
    used = 0
    for i in range(nodes):
        if loads[i] > limit:
            held[i] *= limit / loads[i]
        if opened[i]:
            used += 1
    while used > allowed:
        least = -1
        for i in range(nodes):
            if opened[i] and (least < 0 or held[i] < held[least]):
                least = i
        opened[least] = False
        loads[least] = 0.0
        used -= 1
    worth_per_work = worth / np.maximum(work, 1e-300)
    for j in np.argsort(worth_per_work, kind="mergesort"):
        i = place[j]
        if not opened[i]:
            out[j] = -1
        elif loads[i] > limit and work[j] > 0:
            out[j] = -1
            loads[i] -= work[j]
    for j in np.argsort(-worth, kind="mergesort"):
        i = place[j]
        if out[j] < 0 and opened[i] and loads[i] + work[j] <= limit:
            out[j] = i
            loads[i] += work[j]
    moved = 0.0
    for j in np.argsort(-work, kind="mergesort"):
        if out[j] >= 0:
            continue
        best = -1
        for i in range(nodes):
            if opened[i] and (best < 0 or loads[i] < loads[best]):
                best = i
        if used < allowed and loads[best] + work[j] > limit:
            for i in range(nodes):
                if not opened[i]:
                    opened[i] = True
                    used += 1
                    best = i
                    break
        out[j] = best
        loads[best] += work[j]
        if best != place[j]:
            moved += state[j]
    return moved


@kernel
def followed(
    works: Floats,
    of_step: Ints,
    allowed: Ints,
    limits: Floats,
    state: Floats,
    place: Ints,
    gamma: float,
    costs: Floats,
) -> None:
    """Fill in what each future moves from ``place`` on, discounted: one lazy step after another.

    A row of ``of_step`` has for each migration of a future the row of its work; shorter futures are
    padded with migrations to 0 nodes.
    """
    here = place.copy()
    there = place.copy()
    for s in range(len(allowed)):
        here[:] = place
        weight = 1.0
        total = 0.0
        for i in range(allowed.shape[1]):
            if allowed[s, i] == 0:
                break
            moved = lazy_step(
                works[of_step[s, i]], state, state, here, allowed[s, i], limits[s, i], there
            )
            total += weight * moved
            weight *= gamma
            here[:] = there
        costs[s] = total
