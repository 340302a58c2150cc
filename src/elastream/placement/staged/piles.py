"""Nodes that are filled and emptied task by task, within the limits of a staged problem.

:func:`pack` places what nodes have shed, :func:`return_home` lowers the cost of a placement that
keeps its limits, :func:`level` makes it more even. None of them proves anything.
"""

from __future__ import annotations

import numpy as np

from elastream.placement.staged.step import Flags, Floats, Ints, StagedStep

_SWAPS = 4000
"""Most exchanges of two tasks that are tried."""
_RELIEFS = 4000
"""Most tasks of nodes that are too busy for which exchanges are looked for."""


class Piles:
    """A placement that changes, and what it puts on each node."""

    def __init__(self, step: StagedStep, place: Ints, is_open: Flags) -> None:
        self.step, self.place, self.is_open = step, place.copy(), is_open
        n, tasks = len(step.nodes), np.flatnonzero(place >= 0)
        at = place[tasks]
        self.stages = np.zeros((len(step.query), n))
        np.add.at(self.stages, (step.stage[tasks], at), step.work[tasks])
        self.total = self.stages.sum(axis=0)
        self.held = np.zeros(n)
        np.add.at(self.held, at, step.size[tasks])
        self.taken = np.zeros(n)
        np.add.at(self.taken, at, step.seat[tasks])
        self.busy = step.slots * step.most_busy
        self.longest = (self.stages / step.slots).max(axis=1)
        self.improved = False
        """Whether what can return home has."""

    def move(self, task: int, node: int) -> None:
        """Put the task on the node; -1: on none."""
        step, stage, old = self.step, self.step.stage[task], int(self.place[task])
        for place, sign in ((old, -1), (node, 1)):
            if place >= 0:
                self.stages[stage, place] += sign * step.work[task]
                self.total[place] += sign * step.work[task]
                self.held[place] += sign * step.size[task]
                self.taken[place] += sign * step.seat[task]
        if old >= 0 or node >= 0:
            self.longest[stage] = (self.stages[stage] / step.slots).max()
        self.place[task] = node

    def most(self, stage: int) -> float:
        """Return how long the stage may become while the batch keeps its limit."""
        step = self.step
        query = step.query[stage]
        others = float(self.longest[step.query == query].sum() - self.longest[stage])
        return max(0.0, min(float(step.most[stage]), float(step.most_batch[query]) - others))

    def room(self, task: int, most: float) -> Flags:
        """Return the nodes on which the task fits if its stage may take this long."""
        step, stage = self.step, self.step.stage[task]
        return np.asarray(
            self.is_open
            & (self.stages[stage] + step.work[task] <= most * step.slots)
            & (self.total + step.work[task] <= self.busy)
            & (self.held + step.size[task] <= step.memory)
            & (self.taken + step.seat[task] <= step.seats)
        )

    def fits(self, task: int, node: int, most: float) -> bool:
        """Whether the task fits on the node."""
        step, stage, work = self.step, self.step.stage[task], self.step.work[task]
        return bool(
            self.is_open[node]
            and self.stages[stage, node] + work <= most * step.slots[node]
            and self.total[node] + work <= self.busy[node]
            and self.held[node] + step.size[task] <= step.memory[node]
            and self.taken[node] + step.seat[task] <= step.seats[node]
        )

    def emptiest(self, task: int, room: Flags) -> int:
        """Return of these nodes the one where the stage, then all work, is least afterwards."""
        step = self.step
        nodes = np.flatnonzero(room)
        after = (self.stages[step.stage[task], nodes] + step.work[task]) / step.slots[nodes]
        best = nodes[after <= after.min() * (1 + 1e-12)]
        return int(best[(self.total[best] / step.slots[best]).argmin()])

    def keeps(self) -> bool:
        """Whether all limits are kept."""
        step = self.step
        batches = np.bincount(step.query, self.longest, len(step.most_batch))
        return bool(
            self.place.min() >= 0
            and (batches <= step.most_batch).all()
            and (self.longest <= step.most).all()
            and (self.total <= self.busy).all()
            and (self.held <= step.memory).all()
            and (self.taken <= step.seats).all()
        )


def pack(piles: Piles, lengths: Floats, stay: Floats) -> None:
    """Place the tasks that have no node, the longest first, where their stage keeps its length.

    Where it cannot, it takes as little longer as possible. Before that, tasks go back home, those
    with most state first, while their stage takes no longer than ``stay`` there.
    """
    step = piles.step
    missing = np.flatnonzero(piles.place < 0)
    weight = step.work / np.maximum(lengths[step.stage], 1e-300)
    if np.isfinite(step.memory).any():
        weight = np.maximum(weight, step.size / max(1.0, float(step.memory.max())))
    for task in missing[np.argsort(-step.state[missing], kind="stable")].tolist():
        for node in (int(step.home[task]), *step.copies.get(task, ())):
            if node >= 0 and piles.fits(task, node, stay[step.stage[task]]):
                piles.move(task, node)
                break
    missing = missing[piles.place[missing] < 0]
    for task in missing[np.argsort(-weight[missing], kind="stable")].tolist():
        room = piles.room(task, lengths[step.stage[task]])
        for longer in (piles.most(step.stage[task]), np.inf):
            if not room.any():
                room = piles.room(task, longer)
        if not room.any():
            room = piles.is_open & (piles.held + step.size[task] <= step.memory)
            room &= piles.taken + step.seat[task] <= step.seats
        piles.move(task, piles.emptiest(task, room if room.any() else piles.is_open))


def relieve(piles: Piles) -> None:
    """Exchange tasks of nodes that are too busy for shorter ones of their stage elsewhere.

    Each exchange costs as little as possible for the work that it takes off, and puts no other
    limit at risk. O(tasks of a node * tasks of a stage) each.
    """
    tried = 0
    while tried < _RELIEFS:
        node = int((piles.total / np.maximum(piles.busy, 1e-300)).argmax())
        over = float(piles.total[node] - piles.busy[node])
        if over <= 0:
            return
        best: tuple[float, int, int, int] | None = None
        tasks = np.flatnonzero(piles.place == node)
        tried += len(tasks)
        for task in tasks.tolist():
            for cost, other, to in _exchanges(piles, task, over):
                if best is None or cost < best[0]:
                    best = cost, task, other, to
        if best is None:
            return
        _, task, other, to = best
        piles.move(task, to)
        if other >= 0:
            piles.move(other, node)


def _exchanges(piles: Piles, task: int, over: float) -> list[tuple[float, int, int]]:
    """Return the cheapest exchange of a task, if one helps: its price, the other task, the node."""
    step, node, stage = piles.step, int(piles.place[task]), int(piles.step.stage[task])
    others = np.flatnonzero((step.stage == stage) & (piles.place != node) & (piles.place >= 0))
    empty = np.flatnonzero(piles.is_open & (np.arange(len(step.nodes)) != node))
    other = np.concatenate([others, np.full(len(empty), -1)])
    to = np.concatenate([piles.place[others], empty])
    back = np.concatenate([step.work[others], np.zeros(len(empty))])
    size = np.concatenate([step.size[others], np.zeros(len(empty))])
    seat = np.concatenate([step.seat[others], np.zeros(len(empty))])
    less = step.work[task] - back
    most = piles.most(stage)
    fits = (
        (less > 0)
        & piles.is_open[to]
        & (piles.stages[stage, to] + less <= most * step.slots[to])
        & (piles.total[to] + less <= piles.busy[to])
        & (piles.held[to] + step.size[task] - size <= step.memory[to])
        & (piles.held[node] - step.size[task] + size <= step.memory[node])
        & (piles.taken[to] + step.seat[task] - seat <= step.seats[to])
        & (piles.taken[node] - step.seat[task] + seat <= step.seats[node])
    )
    other, to, less = other[fits], to[fits], less[fits]
    if not len(to):
        return []
    costs = step.costs(task)
    dearer = (costs[to] - costs[node]).astype(np.float64)
    swapped = other >= 0
    homes = step.home[other[swapped]]
    state = step.state[other[swapped]]
    dearer[swapped] += np.where(homes == to[swapped], state, 0) - np.where(homes == node, state, 0)
    price = dearer / np.minimum(less, over)
    best = int(price.argmin())
    return [(float(price[best]), int(other[best]), int(to[best]))]


def return_home(piles: Piles) -> None:
    """Bring moved tasks back where there is room, or where a cheaper task can make room."""
    step = piles.step
    tried = 0
    again = True
    while again:
        again = False
        moved = np.flatnonzero(step.away(piles.place) & (step.state > 0))
        for task in moved[np.argsort(-step.state[moved], kind="stable")].tolist():
            before = tried
            for node in (int(step.home[task]), *step.copies.get(task, ())):
                if node < 0 or not piles.is_open[node]:
                    continue
                if _returns(piles, task, node):
                    again = True
                    break
                swapped, tried = _swap(piles, task, node, tried)
                if swapped:
                    again = True
                    break
            if tried > _SWAPS and tried > before:
                return


def _returns(piles: Piles, task: int, node: int) -> bool:
    """Move the task to the node if it fits there, and say whether it did."""
    old, stage = int(piles.place[task]), int(piles.step.stage[task])
    piles.move(task, -1)
    if piles.fits(task, node, piles.most(stage)):
        piles.move(task, node)
        return True
    piles.move(task, old)
    return False


def _swap(piles: Piles, task: int, node: int, tried: int) -> tuple[bool, int]:
    """Move the task to the node and a cheaper one away from there, if all limits stay kept."""
    step = piles.step
    old, stage = int(piles.place[task]), int(step.stage[task])
    others = np.flatnonzero(piles.place == node)
    away = step.away(piles.place)[others]
    at_hand = np.where(away, 0, step.state[others])
    order = np.argsort(at_hand, kind="stable")
    for other, moves in zip(others[order].tolist(), away[order].tolist(), strict=True):
        tried += 1
        if tried > _SWAPS or (not moves and step.state[other] >= step.state[task]):
            break
        saved = step.state[task] + (step.state[other] if moves else 0)
        piles.move(task, -1)
        piles.move(other, -1)
        if piles.fits(task, node, piles.most(stage)):
            piles.move(task, node)
            costs = step.costs(other)
            room = piles.room(other, piles.most(int(step.stage[other]))) & (costs < saved)
            room[node] = False
            if room.any():
                cheapest = room & (costs == costs[room].min())
                piles.move(other, piles.emptiest(other, cheapest))
                return True, tried
            piles.move(task, -1)
        piles.move(task, old)
        piles.move(other, node)
    return False, tried


def level(piles: Piles) -> Ints:
    """Return a placement that costs no more and is at least as even.

    Tasks that move anyway are spread again, the longest first; those that are free to stay do so
    where that makes no batch longer and no node busier than the busiest.
    """
    step = piles.step
    moved = step.away(piles.place) | ((step.state == 0) & (step.work > 0))
    if not moved.any():
        return piles.place
    anew = Piles(step, np.where(moved, -1, piles.place), piles.is_open)
    for task in np.flatnonzero(moved)[np.argsort(-step.work[moved], kind="stable")].tolist():
        stage = int(step.stage[task])
        room = anew.room(task, float(max(piles.longest[stage], anew.longest[stage])))
        if not room.any():
            anew = piles
            break
        anew.move(task, anew.emptiest(task, room))
    if not anew.keeps() or _unevenness(anew) > _unevenness(piles):
        anew = piles
    most = anew.longest.copy()
    anew.busy = np.minimum(anew.busy, (anew.total / step.slots).max() * step.slots)
    for task in np.flatnonzero((anew.place != step.home) & (step.home >= 0)).tolist():
        home = int(step.home[task])
        free = step.state[task] == 0 or int(anew.place[task]) in step.copies.get(task, ())
        if free and anew.fits(task, home, float(most[step.stage[task]])):
            anew.move(task, home)
    return anew.place


def _unevenness(piles: Piles) -> tuple[float, float]:
    """Return the longest batch compared with its limit, then how busy the busiest node is."""
    step = piles.step
    batches = np.bincount(step.query, piles.longest, len(step.most_batch))
    longest = (batches / np.maximum(step.most_batch, 1e-300)).max()
    return float(longest), float((piles.total / step.slots).max())
