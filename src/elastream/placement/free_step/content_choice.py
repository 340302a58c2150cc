"""The cheapest choice of contents, with proof: skips only contents that no better plan can use.

Prices (:mod:`~elastream.placement.free_step.content_prices`) prove a bound. For each content they
also prove how far any placement that uses it lies above that bound: by the difference of its worth
to the best on its node. So all placements within a window above the bound consist of contents
within the window. These are enumerated, depth first with Dantzig's bound, and a set-partitioning
program over them (HiGHS; coefficients 0 and 1, the capacity no longer appears) finds the cheapest
placement. If that lies in the window it is optimal. If not, nothing lies in the window: the bound
rises by it and the window widens, until it reaches the cheapest known placement or there are too
many contents. After Baldacci, Christofides and Mingozzi (2008), who enumerate routes this way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.placement.branches import branches_of
from elastream.placement.free_step.assignment_milp import proven
from elastream.placement.free_step.content_prices import ContentPrices
from elastream.placement.free_step.whole_step import Answer, Ints, WholeStep
from elastream.placement.kernel import kernel
from elastream.placement.linear_programs import IntegerSolution, Rows, integer_program

_MOST_CONTENTS = 20_000
_MOST_BRANCHES = 50_000_000
_CHOICE_OPERATIONS = 20_000.0
"""Inner steps a task that finding the contents takes, mostly."""
_FIRST_WINDOW = 0.001
"""Width of the first window, as a share of the bound."""
_WIDER = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Contents:
    """Contents and their nodes."""

    tasks: NDArray[np.bool_]
    """One row per content."""
    kind: Ints
    """The holder of each, or ``holders`` for any idle node."""


def content_choice(
    step: WholeStep, prices: ContentPrices, known: Ints | None, *, effort: float
) -> Answer:
    """Return the cheapest placement found (at worst ``known``) and the proven bound.

    ``effort`` limits each of the programs; their sizes grow from one to the next.
    """
    upper = int(step.state.sum()) + 1 if known is None else step.cost(known)
    lower = prices.lower_bound
    width = int(_FIRST_WINDOW * lower) + 1
    while lower < upper:
        top = min(lower + width, upper - 1)
        contents = _within(step, prices, top * prices.fractions - prices.bound)
        if contents is None:
            break
        branches = branches_of(effort, len(contents.kind))
        if branches == 0:
            break
        found = _choose(step, contents, branches)
        if found.x is not None:
            place = _placed(step, contents, found.x)
            if step.fits(place) and step.cost(place) < upper:
                known, upper = place, step.cost(place)
        if not found.proven:
            break
        if not found.infeasible and upper <= top:
            return Answer(known, min(upper, proven(found.bound, _scale(step))))
        lower = top + 1
        width *= _WIDER
    return Answer(known, min(lower, upper))


def _scale(step: WholeStep) -> float:
    return min(1.0, 1e6 / max(1, int(step.state.max())))


def _choose(step: WholeStep, contents: _Contents, branches: int) -> IntegerSolution:
    """Choose contents that hold every task once, at minimum cost."""
    count = len(contents.kind)
    away = step.away(np.arange(len(step.work))[None, :], contents.kind[:, None])
    content, task = np.nonzero(contents.tasks)
    every = np.arange(count)
    most_of_kind = np.array([1] * step.holders + [step.idle])
    cost = np.asarray(_scale(step) * ((contents.tasks & away) @ step.state), np.float64)
    return integer_program(
        cost,
        Rows.of(task, content, 1, 1, np.ones(len(step.work)))
        + Rows.of(contents.kind, every, 1, 0, most_of_kind)
        + Rows.of(np.zeros(count), every, 1, 0, [step.allowed]),
        branches=branches,
    )


def _placed(step: WholeStep, contents: _Contents, x: NDArray[np.float64]) -> Ints:
    place = np.full(len(step.work), -1)
    idle = step.holders
    for content in np.flatnonzero(x > 0.5):
        node = contents.kind[content]
        if node == step.holders:
            node, idle = idle, idle + 1
        place[contents.tasks[content]] = node
    return place


def _within(step: WholeStep, prices: ContentPrices, window: int) -> _Contents | None:
    """Return all contents that a placement within the window can use; ``None`` if too many."""
    tasks = [np.zeros((0, len(step.work)), dtype=np.bool_)]
    kinds = [np.zeros(0, dtype=np.int64)]
    room = _MOST_CONTENTS
    search = _worth_at_least.for_operations(_CHOICE_OPERATIONS * len(step.work))
    for kind, most in enumerate(prices.best.tolist()):
        away = step.away(np.arange(len(step.work)), kind) * step.state * prices.fractions
        contents, count = search(
            step.work,
            prices.price - away,
            step.capacity,
            max(most, prices.least_used) - window,
            room,
            _MOST_BRANCHES,
        )
        if count < 0:
            return None
        room -= count
        tasks.append(contents[:count])
        kinds.append(np.full(count, kind))
    return _Contents(np.vstack(tasks), np.concatenate(kinds))


@kernel
def _worth_at_least(
    work: Ints, worth: Ints, capacity: int, least: int, room: int, branches: int
) -> tuple[NDArray[np.bool_], int]:
    """Return the sets of tasks that fit and are worth ``least`` or more, and their number.

    The number is -1 if there are more than ``room``, or more than ``branches`` to visit.
    """
    n = len(work)
    rank = worth.astype(np.float64)
    useful = 0
    for j in range(n):
        if worth[j] > 0:
            useful += 1
            rank[j] = np.inf if work[j] == 0 else float(worth[j]) / float(work[j])
    order = np.argsort(
        -rank, kind="mergesort"
    )  # by efficiency, then the worthless from better to worse
    work_of_first = np.zeros(n + 1, dtype=np.int64)
    worth_of_first = np.zeros(n + 1, dtype=np.int64)
    for t in range(n):
        work_of_first[t + 1] = work_of_first[t] + work[order[t]]
        worth_of_first[t + 1] = worth_of_first[t] + worth[order[t]]

    sets = np.zeros((room, n), dtype=np.bool_)
    count = 0
    chosen = np.zeros(n + 1, dtype=np.int64)
    following = np.zeros(n + 1, dtype=np.int64)  # the next item to try at each depth
    depth, left, value = 0, capacity, np.int64(0)
    while depth >= 0:
        branches -= 1
        if branches < 0:
            return sets, -1
        t = following[depth]
        reach = value
        if t < useful:
            low, high = t, useful
            while low < high:
                middle = (low + high + 1) // 2
                if work_of_first[middle] - work_of_first[t] <= left:
                    low = middle
                else:
                    high = middle - 1
            reach += worth_of_first[low] - worth_of_first[t]
            if low < useful:
                rest = left - (work_of_first[low] - work_of_first[t])
                share = float(rest) / float(work[order[low]]) * float(worth[order[low]])
                reach += min(worth[order[low]], np.int64(share * (1 + 1e-12)) + 1)
        elif t < n:
            reach += worth[order[t]]
        if t == n or reach < least:
            depth -= 1
            if depth >= 0:
                left += work[chosen[depth]]
                value -= worth[chosen[depth]]
            continue
        following[depth] = t + 1
        item = order[t]
        if work[item] > left:
            continue
        chosen[depth] = item
        depth += 1
        following[depth] = t + 1
        left -= work[item]
        value += worth[item]
        if value >= least:
            if count == room:
                return sets, -1
            for d in range(depth):
                sets[count, chosen[d]] = True
            count += 1
    return sets, count
