"""Two neighbouring steps of a sequence, solved exactly: which cuts keep the most state.

Model. The old step and the new one each choose a cut from their
:class:`~elastream.foresight.oms.intervals.IntervalGraph`. A pair of cuts gains the state it
keeps (see :mod:`~elastream.foresight.ssm.partition_cost`) and the price of every interval it uses.

Recurrence. At bound ``x`` two intervals are open, an old one from ``a`` and a new one from ``b``;
the tasks since ``max(a, b)`` are in the cell of both. The interval that opened later is in its
first cell, so it is not matched yet; one bit says whether the earlier one is. Each interval grows
or closes. If either closes, the cell ends: where the bit is 0 it may be matched, which keeps
``S[x] - S[max(a, b)]`` and sets the bit of the interval that stays open. If the earlier interval
closes, the bit passes to the other and is 0 before the match. Values are *to go*: the most that
can be gained from here to the end.

Cost. O(m w w') time and cells, ``w`` and ``w'`` being how many tasks an interval can hold. How many
intervals a cut has is not part of the state: the prices see to it.
"""

from __future__ import annotations

import numpy as np

from elastream.foresight.oms.intervals import IntervalGraph
from elastream.foresight.ssm.interval_gain import Ints
from elastream.placement.kernel import kernel

NONE = -(1 << 60)
"""The value of what is impossible: below any sum of ticks, and three of them do not overflow."""


def offsets(old: IntervalGraph, new: IntervalGraph) -> Ints:
    """Return where the values of each bound begin in the table of a pair, and its length."""
    return np.append(0, np.cumsum(2 * np.diff(old.first) * np.diff(new.first)))


@kernel
def pair_values(
    state: Ints,
    old: IntervalGraph,
    old_price: Ints,
    new: IntervalGraph,
    new_price: Ints,
    offset: Ints,
    values: Ints,
) -> int:
    """Fill in the most a pair of steps can still gain from each state; return the most of all.

    ``state`` are prefix sums; a price is what closing that vertex's interval there pays. The value
    for the open vertices ``k`` and ``l`` at bound ``x`` and a bit is at
    ``offset[x] + 2 * ((k - old.first[x]) * (vertices of new at x) + l - new.first[x]) + bit``.
    """
    old_first, old_start, old_grown, old_may = old.first, old.start, old.grown, old.may_close
    new_first, new_start, new_grown, new_may = new.first, new.start, new.grown, new.may_close
    m = len(state) - 1
    cell = offset[m]
    for k in range(old_first[m], old_first[m + 1]):
        for j in range(new_first[m], new_first[m + 1]):
            value = old_price[k] + new_price[j]
            values[cell] = value + state[m] - max(state[old_start[k]], state[new_start[j]])
            values[cell + 1] = value
            cell += 2
    for x in range(m - 1, 0, -1):
        cell = offset[x]
        old_next, new_next = old_first[x + 1], new_first[x + 1]
        width = new_first[x + 2] - new_next
        old_opened, new_opened = old.opened[x] - old_next, new.opened[x] - new_next
        for k in range(old_first[x], old_first[x + 1]):
            a = old_start[k]
            old_row = offset[x + 1] + 2 * (old_grown[k] - old_next) * width
            opened_row = offset[x + 1] + 2 * old_opened * width
            for j in range(new_first[x], new_first[x + 1]):
                b = new_start[j]
                kept = state[x] - max(state[a], state[b])
                free = taken = NONE
                if old_grown[k] >= 0 and new_grown[j] >= 0:
                    at = old_row + 2 * (new_grown[j] - new_next)
                    free, taken = values[at], values[at + 1]
                if old_may[k] and new_may[j]:
                    value = old_price[k] + new_price[j] + values[opened_row + 2 * new_opened]
                    free, taken = max(free, value + kept), max(taken, value)
                if old_may[k] and new_grown[j] >= 0:
                    at = opened_row + 2 * (new_grown[j] - new_next)
                    unmatched = old_price[k] + values[at]
                    matched = old_price[k] + values[at + 1]
                    free = max(free, unmatched, matched + kept)
                    taken = max(taken, unmatched if a < b else matched)
                if new_may[j] and old_grown[k] >= 0:
                    at = old_row + 2 * new_opened
                    unmatched = new_price[j] + values[at]
                    matched = new_price[j] + values[at + 1]
                    free = max(free, unmatched, matched + kept)
                    taken = max(taken, unmatched if b < a else matched)
                values[cell] = max(free, NONE)
                values[cell + 1] = max(taken, NONE)
                cell += 2
    most: int = values[0]
    return most


@kernel
def pair_cuts(
    state: Ints,
    old: IntervalGraph,
    old_price: Ints,
    new: IntervalGraph,
    new_price: Ints,
    offset: Ints,
    values: Ints,
    old_closed: Ints,
    new_closed: Ints,
) -> tuple[int, int]:
    """Walk a best solution of :func:`pair_values`; return how many intervals each cut has.

    ``old_closed`` and ``new_closed`` receive the vertices at which an interval closes.
    """
    m = len(state) - 1
    k = j = bit = old_count = new_count = 0
    for x in range(1, m + 1):
        width = new.first[x + 1] - new.first[x]
        value = values[offset[x] + 2 * ((k - old.first[x]) * width + j - new.first[x]) + bit]
        a, b = old.start[k], new.start[j]
        for choice in range(8):
            old_closes, new_closes, match = choice & 1, (choice >> 1) & 1, choice >> 2
            if match and (bit or not (old_closes or new_closes)):
                continue
            if old_closes > old.may_close[k] or new_closes > new.may_close[j]:
                continue
            after = match
            if not match and old_closes + new_closes < 2:
                lost = (old_closes and a < b) or (new_closes and b < a)
                after = 0 if lost else bit
            gain = old_closes * old_price[k] + new_closes * new_price[j]
            gain += match * (state[x] - max(state[a], state[b]))
            k_next = old.opened[x] if old_closes else old.grown[k]
            j_next = new.opened[x] if new_closes else new.grown[j]
            if x < m:
                if k_next < 0 or j_next < 0:
                    continue
                width = new.first[x + 2] - new.first[x + 1]
                at = (k_next - old.first[x + 1]) * width + j_next - new.first[x + 1]
                after = 0 if old_closes and new_closes else after
                gain += values[offset[x + 1] + 2 * at + after]
            elif old_closes + new_closes < 2:
                continue
            if gain == value:
                if old_closes:
                    old_closed[old_count] = k
                    old_count += 1
                if new_closes:
                    new_closed[new_count] = j
                    new_count += 1
                k, j, bit = k_next, j_next, after
                break
    return old_count, new_count
