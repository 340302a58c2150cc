"""Simulated annealing of a staged placement: cheaper exchanges, over the limits in between.

As :mod:`~elastream.placement.free_step.annealing`: a task goes to another node, often home, or two
tasks are swapped, mostly of one stage. A trial is judged by the state it moves and by how far it
puts batches, stages and nodes over their limits, whose price rises as the temperature falls.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from elastream.placement.kernel import kernel
from elastream.placement.staged.piles import Piles
from elastream.placement.staged.step import Ints

_OPERATIONS = 8.0
"""Inner steps of a trial: plain Python takes 5 microseconds."""
_COOLING = 0.01
"""The last temperature compared with the first."""
_CHEAP, _DEAR = 5.0, 50.0
"""First and last price of a limit that is exceeded by all of itself, in mean states of a node."""


def anneal(piles: Piles, *, trials: int, heat: float) -> Ints | None:
    """Return the cheapest placement within the limits that is seen, if one is.

    ``heat`` is the first temperature, in mean states of a node.
    """
    step = piles.step
    order = np.argsort(step.stage, kind="stable")
    n = len(step.nodes)
    costs = np.array([step.costs(task) for task in order.tolist()], dtype=np.float64)
    run = _anneal.for_operations(_OPERATIONS * trials)
    arrays: list[Any] = [
        step.work[order], step.size[order], step.stage[order],
        np.searchsorted(step.stage[order], np.arange(len(step.query) + 1)),
        np.where(step.home >= 0, step.home, piles.place)[order],
        costs.ravel() * len(step.nodes) / max(1.0, float(step.state.sum())),
        step.query, step.slots, step.memory, step.seat[order], step.seats,
        np.maximum(step.most_batch, 1e-300),
        np.maximum(step.most, 1e-300), np.flatnonzero(piles.is_open), piles.is_open,
        piles.place[order], piles.stages.ravel().copy(), piles.total.copy(), piles.held.copy(),
        piles.taken.copy(), piles.longest.copy(), piles.place[order],
    ]  # fmt: skip
    if run is _anneal.plain:  # which reads lists much faster
        arrays = [array.tolist() for array in arrays]
    sweeps = max(1, trials // len(order))
    found = run(*arrays, n, step.most_busy, sweeps, heat)  # type: ignore[call-arg]
    if not found:
        return None
    place = np.empty(len(order), dtype=np.int64)
    place[order] = arrays[-1]
    return place


@kernel
def _longest(
    loads: Any, slots: Any, start: int, n: int, old: float, a: int, la: float, b: int, lb: float
) -> float:
    """Return the most work on a slot when nodes ``a`` and ``b`` have these loads."""
    rises = max(la / slots[a], lb / slots[b])
    if rises >= old or max(loads[start + a] / slots[a], loads[start + b] / slots[b]) < old:
        return float(max(rises, old)) if rises < old else float(rises)
    for node in range(n):
        if node != a and node != b:
            rises = max(rises, loads[start + node] / slots[node])
    return float(rises)


@kernel
def _anneal(
    work: Any, size: Any, stage: Any, first: Any, home: Any, costs: Any, query: Any, slots: Any,
    memory: Any, seat: Any, seats: Any, most_batch: Any, most: Any, nodes: Any, is_open: Any,
    place: Any, loads: Any, total: Any, held: Any, taken: Any, longest: Any, best: Any, n: int,
    busy: float, sweeps: int, heat: float,
) -> bool:  # fmt: skip
    """Write the cheapest placement within the limits to ``best``; return whether there was one."""
    tasks = len(work)
    batch = [0.0 for _ in most_batch]
    for s in range(len(query)):
        batch[query[s]] += longest[s]
    over = 0
    for q in range(len(batch)):
        over += batch[q] > most_batch[q]
    for s in range(len(query)):
        over += longest[s] > most[s]
    for i in range(n):
        over += total[i] > busy * slots[i]
        over += held[i] > memory[i]
        over += taken[i] > seats[i]
    cost = 0.0
    for j in range(tasks):
        cost += costs[j * n + place[j]]
    found, least = over == 0, cost
    random, dear = 1, _CHEAP
    for _ in range(sweeps):
        for _ in range(tasks):
            random = random * 48271 % 2147483647  # Park and Miller's generator
            j = random % tasks
            a, s = place[j], stage[j]
            random = random * 48271 % 2147483647
            kind = random % 8
            random = random * 48271 % 2147483647
            k = -1
            if kind == 0:
                b = nodes[random % len(nodes)]
            elif kind < 3:
                b = home[j]
            else:
                k = first[s] + random % (first[s + 1] - first[s]) if kind < 7 else random % tasks
                b = place[k]
            if a == b or not is_open[b]:
                continue
            dearer = costs[j * n + b] - costs[j * n + a]
            w, v, bytes_moved, seats_moved = work[j], 0.0, size[j], seat[j]
            t = s
            if k >= 0:
                t, v = stage[k], work[k]
                bytes_moved -= size[k]
                seats_moved -= seat[k]
                dearer += costs[k * n + a] - costs[k * n + b]
            x = s * n
            y = t * n
            moved = w - v if t == s else w
            la, lb = loads[x + a] - moved, loads[x + b] + moved
            new = _longest(loads, slots, x, n, longest[s], a, la, b, lb)
            other = longest[t]
            ka, kb = 0.0, 0.0
            if t != s:
                ka, kb = loads[y + a] + v, loads[y + b] - v
                other = _longest(loads, slots, y, n, longest[t], a, ka, b, kb)
            q, r = query[s], query[t]
            grows, more = new - longest[s], 0.0
            if t != s:
                more = other - longest[t]
                if q == r:
                    grows, more = grows + more, 0.0
            excess = max(0.0, batch[q] + grows - most_batch[q]) / most_batch[q]
            excess -= max(0.0, batch[q] - most_batch[q]) / most_batch[q]
            if q != r:
                excess += max(0.0, batch[r] + more - most_batch[r]) / most_batch[r]
                excess -= max(0.0, batch[r] - most_batch[r]) / most_batch[r]
            excess += (max(0.0, new - most[s]) - max(0.0, longest[s] - most[s])) / most[s]
            if t != s:
                excess += (max(0.0, other - most[t]) - max(0.0, longest[t] - most[t])) / most[t]
            ta, tb = total[a] - w + v, total[b] + w - v
            ha, hb = held[a] - bytes_moved, held[b] + bytes_moved
            sa, sb = taken[a] - seats_moved, taken[b] + seats_moved
            for node, load, state, tasks_there in ((a, ta, ha, sa), (b, tb, hb, sb)):
                crowd = max(0.0, tasks_there - seats[node])
                excess += crowd - max(0.0, taken[node] - seats[node])
                room = busy * slots[node]
                excess += (max(0.0, load - room) - max(0.0, total[node] - room)) / room
                room = max(memory[node], 1.0)
                excess += (max(0.0, state - room) - max(0.0, held[node] - room)) / room
            change = dearer + dear * excess
            if change > 0:
                random = random * 48271 % 2147483647
                if change > 20 * heat or random > 2147483647 * math.exp(-change / heat):
                    continue
            over += (batch[q] + grows > most_batch[q]) - (batch[q] > most_batch[q])
            batch[q] += grows
            if q != r:
                over += (batch[r] + more > most_batch[r]) - (batch[r] > most_batch[r])
                batch[r] += more
            over += (new > most[s]) - (longest[s] > most[s])
            longest[s] = new
            loads[x + a], loads[x + b] = la, lb
            if t != s:
                over += (other > most[t]) - (longest[t] > most[t])
                longest[t] = other
                loads[y + a], loads[y + b] = ka, kb
            for node, load, state, tasks_there in ((a, ta, ha, sa), (b, tb, hb, sb)):
                over += (tasks_there > seats[node]) - (taken[node] > seats[node])
                taken[node] = tasks_there
                over += (load > busy * slots[node]) - (total[node] > busy * slots[node])
                over += (state > memory[node]) - (held[node] > memory[node])
                total[node], held[node] = load, state
            cost += dearer
            place[j] = b
            if k >= 0:
                place[k] = a
            if over == 0 and (not found or cost < least - 1e-12):
                found, least = True, cost
                best[:] = place
        heat *= _COOLING ** (1.0 / sweeps)
        dear *= (_DEAR / _CHEAP) ** (1.0 / sweeps)
    return found
