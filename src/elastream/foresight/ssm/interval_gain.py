"""The dynamic program behind single-step: the most state that can stay where it is.

Model. ``m`` tasks in a row are held by old nodes, each an interval (a *block*); they are to be cut
into at most ``n'`` new intervals of work at most ``cap``. A new interval may be *matched* to one
old node, and each old node to one new interval; what the pair shares stays. The sum is the gain.

Recurrence. Matched pairs can be taken in the order of the tasks (lemma 3.1 of paper 000), so a
prefix of the tasks is summed up by its length ``x``, the number ``l`` of new intervals that cover
it, and one bit: is the old node that holds task ``x`` matched already? Let ``used(l, x)`` and
``free(l, x)`` be the best gains for both answers. The last interval ``[a, x)`` reaches from block
``y(a)`` to the block of task ``x - 1``, which starts at ``s``. With ``best = max(used, free)``:

* matched to the block of ``x - 1``: from ``free(l-1, a) + S[x] - S[a]`` for ``a >= s``, from
  ``best(l-1, a) + S[x] - S[s]`` for ``a < s``;
* matched to its first block ``y(a)``, of which it holds the rest: ``free(l-1, a) + rest(a)``;
* matched to a block in between, which it holds whole: ``best(l-1, a) + size of the block``;
* not matched: the bit is unchanged.

At the end of a block both answers merge. ``S`` are prefix sums of the state in whole *ticks*, so
gains compare exactly and :func:`trace` finds its way back by equality.

Cost. O(m n'); paper 000 needs O(m² n') (table 2). For each ``l`` the admissible starts ``a`` form a
window that only moves forward, so every maximum, also that over pairs of a start and a whole block
behind it, is one over a sliding window: suffix maxima over the older starts, running maxima over
the newer ones.

Ties. The lowest maximum load among all solutions of greatest gain is found by bisection over the
loads of intervals. The first probe lies just below the load reached: mostly it fails, and that is
the proof. A probe skips prefixes that cannot lead to the gain known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastream.placement.kernel import kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Held(NamedTuple):
    """Tasks in a row, and the blocks that hold them now."""

    state: Ints
    """Prefix sums of the state, in ticks: m + 1 of them."""
    starts: Ints
    """The first task of each block, and m."""
    block: Ints
    """The block of each task."""


class Spans(NamedTuple):
    """The prefixes that l intervals can cover, for l from 0 to the most that are allowed."""

    first: Ints
    """For each x the least admissible start of an interval that ends there."""
    low: Ints
    high: Ints
    """For each l the first and the last prefix."""
    offset: Ints
    """The cell of l intervals and prefix x is ``offset[l] + x``."""


_NONE = -(1 << 60)
"""The gain of unreachable cells: less than any sum of ticks, and far from overflow."""


@kernel
def least_moved(work: Floats, held: Held, cap: float, grain: float, cuts: Ints, match: Ints) -> int:
    """Find the intervals of greatest gain and, of those, of lowest maximum load.

    ``work`` are prefix sums; loads closer than ``grain`` count as equal. ``cuts`` and ``match``
    have one entry more than there may be intervals. Returns the number of intervals, 0 if ``cap``
    is too low. Interval ``i``, counted from the last, is ``[cuts[i + 1], cuts[i])`` and stays on
    the node of block ``match[i]``, or of none if that is -1.
    """
    m = len(work) - 1
    levels = len(cuts) - 1
    trial_cuts, trial_match = np.empty_like(cuts), np.empty_like(match)
    gain = _NONE
    count = 0
    load = cap
    floor = work[m] / levels - grain
    probe = cap
    while True:
        found, intervals = most_kept(work, held, probe, gain, trial_cuts, trial_match)
        if intervals > 0 and found >= gain:
            first = count == 0
            gain, count = found, intervals
            cuts[: count + 1] = trial_cuts[: count + 1]
            match[:count] = trial_match[:count]
            load = 0.0
            for i in range(count):
                load = max(load, work[cuts[i]] - work[cuts[i + 1]])
            middle = load if first else (floor + load) / 2
        elif count == 0:
            return 0
        else:
            floor = probe
            middle = (floor + load) / 2
        candidate = nearest_load(work, floor, load - grain, middle)
        if candidate < 0:
            return count
        probe = candidate + grain / 2


@kernel
def nearest_load(work: Floats, least: float, most: float, wanted: float) -> float:
    """Return the work of an interval, between the two bounds and nearest to ``wanted``, or -1."""
    best = -1.0
    a = 0
    for x in range(1, len(work)):
        while a + 1 < x and work[x] - work[a + 1] >= wanted:
            a += 1
        for start in range(a, min(a + 2, x)):
            load = work[x] - work[start]
            if least < load < most and (best < 0 or abs(load - wanted) < abs(best - wanted)):
                best = load
    return best


@kernel
def most_kept(
    work: Floats, held: Held, cap: float, least: int, cuts: Ints, match: Ints
) -> tuple[int, int]:
    """Return the maximum gain with loads up to ``cap`` and the number of its intervals.

    0 intervals if no gain of ``least`` or more exists.
    """
    span, cells = spans(work, cap, len(cuts) - 1)
    if cells == 0:
        return _NONE, 0
    free, used = np.empty(cells, np.int64), np.empty(cells, np.int64)
    smallest = np.zeros(len(held.starts), np.int64)
    sizes = held.state[held.starts[1:]] - held.state[held.starts[:-1]]
    smallest[1:] = np.cumsum(np.sort(sizes))
    gain = forward(held, span, free, used, smallest, least)
    if gain < 0:
        return _NONE, 0
    return gain, trace(held, span, free, used, gain, cuts, match)


@kernel
def spans(work: Floats, cap: float, levels: int) -> tuple[Spans, int]:
    """Return the spans under ``cap`` for up to ``levels`` intervals, and how many cells they have.

    0 cells if the allowed intervals cannot hold all tasks.
    """
    m = len(work) - 1
    first = np.empty(m + 1, np.int64)
    low, high = np.empty(levels + 1, np.int64), np.empty(levels + 1, np.int64)
    span = Spans(first, low, high, np.empty(levels + 1, np.int64))
    a = 0
    for x in range(m + 1):
        while work[x] - work[a] > cap:
            a += 1
        first[x] = a
    reach = 0
    high[0] = 0
    for level in range(1, levels + 1):
        stop = reach
        while stop < m and work[stop + 1] - work[reach] <= cap:
            stop += 1
        if stop == reach and reach < m:
            return span, 0
        reach = stop
        high[level] = reach
    if reach < m:
        return span, 0
    least = m
    low[levels] = m
    for level in range(levels - 1, -1, -1):
        least = first[least]
        low[level] = least
    cells = 0
    for level in range(levels + 1):
        low[level] = min(max(low[level], level), m)
        span.offset[level] = cells - low[level]
        cells += max(high[level] - low[level] + 1, 0)
    return span, cells


@kernel
def forward(held: Held, span: Spans, free: Ints, used: Ints, smallest: Ints, target: int) -> int:
    """Fill in the best gains, ``free`` and ``used``, a cell each; return the greatest gain.

    Prefixes that cannot lead to a gain of ``target`` are left out, and ``low`` and ``high`` drawn
    together around the others of each row. Behind a prefix all may stay but for the blocks that
    are more than the intervals left; ``smallest[k]`` is the size of the ``k`` smallest blocks.

    The starts of a window lie on two sides: *near* ones in the block of task ``x - 1``, *far* ones
    before it. On each side the stacks hold suffix maxima for starts below ``near_end``
    (``far_end``), the variables maxima for those after.
    """
    state, starts, block = held
    first, low, high, offset = span
    m = len(state) - 1
    levels = len(low) - 1
    stacks = np.empty((6, m + 1), np.int64)
    near_match, near_used, near_free = stacks[0], stacks[1], stacks[2]
    far_rest, far_best, far_pair = stacks[3], stacks[4], stacks[5]
    free[offset[0]] = 0
    used[offset[0]] = _NONE
    gain = _NONE
    for level in range(1, levels + 1):
        before = offset[level - 1]
        least, most = low[level - 1], high[level - 1]
        begin, end = max(low[level], least + 1), high[level]
        low[level], high[level] = m + 1, -1
        current = -1
        far_next = near_next = least
        far_end = near_end = least
        done = 0 if level == 1 else block[min(least, m - 1)]
        rest = best = pair = whole = _NONE
        match = match_used = match_free = _NONE
        for x in range(begin, end + 1):
            left = max(first[x], least)
            if left > most:
                break
            last = block[x - 1]
            if last != current:
                current = last
                start = starts[last]
                unmatched = len(starts) - 2 - last - (levels - level)
                needed = target - state[m] + smallest[max(0, unmatched)]
                while done < last:
                    size = state[starts[done + 1]] - state[starts[done]]
                    pair = max(pair, best + size)
                    whole = max(whole, size)
                    stop = min(starts[done + 1] - 1, most)
                    while far_next <= stop:
                        kept = free[before + far_next]
                        rest = max(rest, kept + state[starts[done + 1]] - state[far_next])
                        best = max(best, kept, used[before + far_next])
                        far_next += 1
                    done += 1
                near_next = max(start, least)
                near_end = near_next
                match = match_used = match_free = _NONE
            while near_next < x and near_next <= most:
                kept = free[before + near_next]
                match = max(match, kept - state[near_next])
                match_used = max(match_used, used[before + near_next])
                match_free = max(match_free, kept)
                near_next += 1
            value_used = value_free = _NONE
            if left < far_next and left < start:
                if left >= far_end:
                    far_end = far_next
                    rest = best = pair = whole = _NONE
                    stack_far(held, free, used, before, left, far_end, last - 1, stacks)
                value_used = max(far_best[left], best) + state[x] - state[start]
                value_free = max(far_rest[left], rest)
                value_free = max(value_free, far_pair[left], pair, far_best[left] + whole)
                value_free = max(value_free, far_best[left], best)
            else:
                rest = best = pair = whole = _NONE
                far_end = far_next
            left = max(left, start)
            if left < near_next:
                if left >= near_end:
                    near_end = near_next
                    match = match_used = match_free = _NONE
                    stack_near(state, free, used, before, left, near_end, stacks)
                value_used = max(value_used, max(near_match[left], match) + state[x])
                value_used = max(value_used, near_used[left], match_used)
                value_free = max(value_free, near_free[left], match_free)
            if x == m or block[x] != last:
                value_free = max(value_free, value_used)
                value_used = _NONE
            enough = max(0, needed + state[x])
            free[offset[level] + x] = value_free if value_free >= enough else _NONE
            used[offset[level] + x] = value_used if value_used >= enough else _NONE
            if max(value_free, value_used) >= enough:
                low[level], high[level] = min(low[level], x), x
        if high[level] == m:
            gain = max(gain, free[offset[level] + m])
    return gain


@kernel
def stack_near(
    state: Ints, free: Ints, used: Ints, before: int, left: int, end: int, stacks: Ints
) -> None:
    """Fill in for each near start from ``left`` on the maxima over the starts up to ``end``."""
    match = taken = kept = _NONE
    for a in range(end - 1, left - 1, -1):
        kept = max(kept, free[before + a])
        taken = max(taken, used[before + a])
        match = max(match, free[before + a] - state[a])
        stacks[0, a], stacks[1, a], stacks[2, a] = match, taken, kept


@kernel
def stack_far(
    held: Held, free: Ints, used: Ints, before: int, left: int, end: int, behind: int, stacks: Ints
) -> None:
    """Fill in the same for far starts; ``behind`` is the last block that may be held whole."""
    state, starts, block = held
    rest = best = pair = size = _NONE
    for a in range(end - 1, left - 1, -1):
        while behind > block[a]:
            size = max(size, state[starts[behind + 1]] - state[starts[behind]])
            behind -= 1
        top = max(free[before + a], used[before + a])
        rest = max(rest, free[before + a] + state[starts[behind + 1]] - state[a])
        best = max(best, top)
        pair = max(pair, top + size)
        stacks[3, a], stacks[4, a], stacks[5, a] = rest, best, pair


@kernel
def trace(
    held: Held, span: Spans, free: Ints, used: Ints, gain: int, cuts: Ints, match: Ints
) -> int:
    """Walk back from ``gain`` and fill ``cuts`` and ``match``; return how many intervals there are.

    A start that keeps tasks where they are is preferred to one of the same gain that does not.
    """
    state, starts, block = held
    _, low, high, offset = span
    m = len(state) - 1
    level = len(low) - 1
    while high[level] < m or free[offset[level] + m] != gain:
        level -= 1
    intervals = level
    x = m
    is_used = False
    value = gain
    cuts[0] = m
    while level > 0:
        before = offset[level - 1]
        last = block[x - 1]
        start = starts[last]
        ends = x == m or block[x] != last
        found = -1
        whole = -1
        inner = last
        a = min(x - 1, high[level - 1])
        while True:
            kept, taken = free[before + a], used[before + a]
            best = max(kept, taken)
            home = block[a]
            was_used = taken > kept
            if a >= start:
                if (is_used or ends) and kept + state[x] - state[a] == value:
                    found, was_used = last, False
                    break
                if (is_used or ends) and taken == value:
                    was_used = True
                    break
                if not is_used and kept == value:
                    was_used = False
                    break
            else:
                while inner > home + 1:
                    inner -= 1
                    size = state[starts[inner + 1]] - state[starts[inner]]
                    if whole < 0 or size > state[starts[whole + 1]] - state[starts[whole]]:
                        whole = inner
                if (is_used or ends) and best + state[x] - state[start] == value:
                    found = last
                    break
                if not is_used:
                    if kept + state[starts[home + 1]] - state[a] == value:
                        found, was_used = home, False
                        break
                    if whole >= 0:
                        size = state[starts[whole + 1]] - state[starts[whole]]
                        if best + size == value:
                            found = whole
                            break
                    if best == value:
                        break
            a -= 1
        match[intervals - level] = found
        cuts[intervals - level + 1] = a
        value = taken if was_used else kept
        is_used = was_used
        x = a
        level -= 1
    return intervals
