"""Place tasks that fit nowhere, and bring tasks home, by ejecting others.

:func:`eject` is the guided ejection search of Nagata and Bräysy (2009): a task is put where making
room costs least, the ejected tasks wait to be placed in turn, and a task that was hard to place
becomes expensive to eject. On one node the tasks with the least cost per work are ejected until one
more makes room alone.

Freeing an amount of work on a node costs at least that amount times the node's least price per unit
of work, kept up to date node by node, so most nodes are skipped after one comparison: O(nodes) per
ejection plus the tasks of the few nodes that are examined, where examining all tasks took O(tasks).

:func:`go_home` brings a moved task back if there is room, or if ejecting one cheaper task makes
room and that one fits elsewhere: O(nodes) per task and the tasks on its home. A task is at home
where it was and where a copy of its state is. These are tried one after the other, so a task with
copies takes proportionally longer.

Both count their steps, and end when ``effort`` is used up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.whole_step import Ints
from elastream.placement.kernel import kernel

Floats = NDArray[np.float64]


@kernel
def eject(
    work: Ints,
    state: Ints,
    home: Ints,
    copies: Ints,
    place: Ints,
    loads: Ints,
    open_nodes: NDArray[np.bool_],
    capacity: int,
    ejections: int,
    effort: int,
) -> int:
    """Place the tasks at -1, changing ``place`` and ``loads``; return how many are left."""
    tasks, nodes, columns = len(work), len(open_nodes), copies.shape[1]
    waiting = np.argsort(work, kind="mergesort")
    left = 0
    for task in waiting:
        if place[task] < 0:
            waiting[left] = task
            left += 1
    penalty = np.ones(tasks)
    mean = max(1.0, state.sum() / tasks)
    newest = np.full(nodes, -1)  # a chain of the tasks on each node
    older = np.full(tasks, -1)
    newer = np.full(tasks, -1)
    for task in range(tasks):
        if place[task] >= 0:
            enchain(task, place[task], newest, older, newer)
    price = np.zeros(tasks)  # of ejecting a task
    for task in range(tasks):
        if place[task] >= 0:
            loss = float(state[task]) if at_home(task, place[task], home, copies) else 0.0
            price[task] = penalty[task] * (loss + mean * work[task] / capacity)
    rate = np.full(nodes, np.inf)  # the least price per unit of work on each node
    for node in range(nodes):
        rate[node] = least_rate(node, work, price, newest, older)
    member = np.zeros(tasks, dtype=np.int64)
    chosen = np.zeros(tasks, dtype=np.int64)
    while left > 0:
        task = waiting[left - 1]
        load = work[task]
        target, count = -1, 0
        if open_nodes[home[task]] and loads[home[task]] + load <= capacity:
            target = home[task]
        for column in range(columns):
            node = copies[task, column]
            if target < 0 <= node and open_nodes[node] and loads[node] + load <= capacity:
                target = node
        if target < 0:
            effort -= nodes
            for node in range(nodes):
                fits = open_nodes[node] and loads[node] + load <= capacity
                if fits and (target < 0 or loads[node] > loads[target]):
                    target = node
        if target < 0:
            if ejections == 0 or effort < 0:
                return left
            ejections -= 1
            effort -= nodes
            penalty[task] += 1
            least = np.inf
            for node in range(nodes):
                if not open_nodes[node]:
                    continue
                short = loads[node] + load - capacity
                paid = -float(state[task]) if at_home(task, node, home, copies) else 0.0
                if paid + rate[node] * short * (1 - 1e-9) >= least:
                    continue
                size = 0
                other = newest[node]
                while other >= 0:
                    member[size] = other
                    size += 1
                    other = older[other]
                now = 0
                while paid < least:
                    effort -= size - now
                    enough, part = -1, -1  # cheapest that makes room alone; cheapest for its work
                    for a in range(now, size):
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
                        count = now + 1
                        chosen[:now] = member[:now]
                        chosen[now] = member[enough]
                    if part < 0:
                        break
                    member[now], member[part] = member[part], member[now]
                    paid += price[member[now]]
                    short -= work[member[now]]
                    now += 1
        left -= 1
        for other in chosen[:count]:
            unchain(other, target, newest, older, newer)
            place[other] = -1
            loads[target] -= work[other]
            waiting[left] = other
            left += 1
        enchain(task, target, newest, older, newer)
        place[task] = target
        loads[target] += load
        loss = float(state[task]) if at_home(task, target, home, copies) else 0.0
        price[task] = penalty[task] * (loss + mean * load / capacity)
        rate[target] = least_rate(target, work, price, newest, older)
    return 0


@kernel
def go_home(
    work: Ints,
    state: Ints,
    home: Ints,
    copies: Ints,
    place: Ints,
    loads: Ints,
    open_nodes: NDArray[np.bool_],
    capacity: int,
    effort: int,
) -> None:
    """Lower the cost of ``place`` until no return of one task lowers it further."""
    tasks, nodes = len(work), len(open_nodes)
    newest = np.full(nodes, -1)  # a chain of the tasks on each node
    older = np.full(tasks, -1)
    newer = np.full(tasks, -1)
    for task in range(tasks):
        enchain(task, place[task], newest, older, newer)
    order = np.argsort(-state, kind="mergesort")
    changed = True
    while changed and effort > 0:
        changed = False
        for task in order:
            if state[task] == 0 or at_home(task, place[task], home, copies):
                continue
            for column in range(-1, copies.shape[1]):
                to, source = home[task] if column < 0 else copies[task, column], place[task]
                if to < 0 or not open_nodes[to]:
                    continue
                short = loads[to] + work[task] - capacity
                if short > 0:
                    effort -= nodes
                    roomiest = np.int64(-1)  # the most that fits elsewhere once the task has left
                    for node in range(nodes):
                        if node != to and open_nodes[node]:
                            left = work[task] if node == source else 0
                            roomiest = max(roomiest, capacity - loads[node] + left)
                    out = -1
                    most = np.int64(0)
                    other = newest[to]
                    while other >= 0:
                        effort -= 1
                        gain = state[task]
                        if at_home(other, to, home, copies):
                            room = refuge(
                                other,
                                to,
                                task,
                                source,
                                work,
                                home,
                                copies,
                                loads,
                                open_nodes,
                                capacity,
                            )
                            gain -= state[other] if room < 0 else 0
                        if short <= work[other] <= roomiest and gain > most:
                            most, out = gain, other
                        other = older[other]
                    if out < 0:
                        continue
                    out_to = refuge(
                        out, to, task, source, work, home, copies, loads, open_nodes, capacity
                    )
                    for node in range(nodes if out_to < 0 else 0):  # the fullest that has room
                        left = work[task] if node == source else 0
                        fits = open_nodes[node] and loads[node] - left + work[out] <= capacity
                        if node != to and fits and (out_to < 0 or loads[node] > loads[out_to]):
                            out_to = node
                    unchain(out, to, newest, older, newer)
                    enchain(out, out_to, newest, older, newer)
                    place[out] = out_to
                    loads[to] -= work[out]
                    loads[out_to] += work[out]
                unchain(task, source, newest, older, newer)
                enchain(task, to, newest, older, newer)
                place[task] = to
                loads[source] -= work[task]
                loads[to] += work[task]
                changed = True
                break


@kernel
def least_rate(node: int, work: Ints, price: Floats, newest: Ints, older: Ints) -> float:
    """Return the least price per unit of work of the tasks on the node."""
    least = np.inf
    task = newest[node]
    while task >= 0:
        if work[task] > 0:
            least = min(least, price[task] / work[task])
        task = older[task]
    return least


@kernel
def enchain(task: int, node: int, newest: Ints, older: Ints, newer: Ints) -> None:
    """Add the task to the chain of the node."""
    older[task], newer[task] = newest[node], -1
    if newest[node] >= 0:
        newer[newest[node]] = task
    newest[node] = task


@kernel
def unchain(task: int, node: int, newest: Ints, older: Ints, newer: Ints) -> None:
    """Remove the task from the chain of the node."""
    if newer[task] >= 0:
        older[newer[task]] = older[task]
    else:
        newest[node] = older[task]
    if older[task] >= 0:
        newer[older[task]] = newer[task]


@kernel
def at_home(task: int, node: int, home: Ints, copies: Ints) -> bool:
    """Return whether the task loads no state on the node."""
    there = home[task] == node
    for column in range(copies.shape[1]):
        there = there or copies[task, column] == node
    return bool(there)


@kernel
def refuge(
    task: int,
    node: int,
    leaving: int,
    source: int,
    work: Ints,
    home: Ints,
    copies: Ints,
    loads: Ints,
    open_nodes: NDArray[np.bool_],
    capacity: int,
) -> int:
    """Return another node with room where a task with copies loads no state, or -1.

    The room is computed after ``leaving`` has left ``source``.
    """
    for column in range(-1, copies.shape[1]):
        to = home[task] if column < 0 else copies[task, column]
        if copies.shape[1] > 0 and 0 <= to != node and open_nodes[to]:
            left = work[leaving] if to == source else 0
            if loads[to] - left + work[task] <= capacity:
                return int(to)
    return -1
