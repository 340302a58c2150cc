"""The least state that moves between two cuts of the same tasks into intervals.

Papers 000 (section 4.1, line 3 of figure 5) and 001 (section 5.1): the cost depends on the two cuts
alone, because nodes can be renamed (lemma 4.1). A new interval may continue one old interval and
each old one be continued once; what such a pair shares stays. The papers use a general matching.

Model. The bounds of both cuts split the tasks into at most ``k + k' - 1`` *cells*, each in one old
and one new interval. A matching is a choice of cells no two of which share an interval.

Recurrence. Sweep the cells; ``f[a][b]`` is the most state kept so far, where ``a`` says whether the
open old interval is matched already and ``b`` the same for the new one. An interval that ends
resets its bit. O(k + k'). The cost is a metric on cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from elastream.foresight.ssm.interval_gain import Ints
from elastream.model.checks import Number
from elastream.model.migration import exact_sum
from elastream.placement.kernel import kernel
from elastream.placement.whole_units import in_units


@kernel
def kept_state(old: Ints, new: Ints) -> int:
    """Return the most state that can stay between two cuts.

    ``old`` and ``new`` are the prefix sums of the state at the bounds of each cut, from 0 to the
    total. The least state moved is the total minus this.
    """
    nowhere = -(1 << 60)
    both_free, old_free, new_free, none_free = 0, nowhere, nowhere, nowhere
    i = j = 1
    position = 0
    while True:
        end = min(old[i], new[j])
        none_free = max(none_free, both_free + end - position)
        old_is_last, new_is_last = i == len(old) - 1, j == len(new) - 1
        if old_is_last and new_is_last:
            most: int = max(both_free, old_free, new_free, none_free)
            return most
        old_ends = old[i] == end and not old_is_last
        new_ends = new[j] == end and not new_is_last
        if old_ends and new_ends:
            both_free = max(both_free, old_free, new_free, none_free)
            old_free = new_free = none_free = nowhere
            i += 1
            j += 1
        elif old_ends:
            both_free = max(both_free, new_free)
            old_free = max(old_free, none_free)
            new_free = none_free = nowhere
            i += 1
        else:
            both_free = max(both_free, old_free)
            new_free = max(new_free, none_free)
            old_free = none_free = nowhere
            j += 1
        position = end


class Matching(NamedTuple):
    """How the intervals of one cut continue those of another."""

    cost: Number
    """State that moves, in bytes."""
    continues: tuple[int | None, ...]
    """For each new interval the old one whose tasks stay in it; ``None`` if none do."""


class _Cell(NamedTuple):
    """Tasks that share their old and their new interval."""

    lb: int
    ub: int
    old: int
    new: int


def cheapest_matching(state: Sequence[Number], old: Sequence[int], new: Sequence[int]) -> Matching:
    """Return the matching that moves the least state, and of those one that moves the fewest tasks.

    ``old`` and ``new`` are the bounds of two cuts: ``0 = b[0] < b[1] < ... < b[k] = len(state)``.
    Exact for any sizes.
    """
    tasks = len(state)
    units, _ = in_units(state)
    weight = [0, *accumulate(size * (tasks + 1) + 1 for size in units)]
    cells = _cells(old, new)
    continues: list[int | None] = [None] * (len(new) - 1)
    stay: set[int] = set()
    for lb, ub, i, j in _chosen(cells, [weight[cell.ub] - weight[cell.lb] for cell in cells]):
        continues[j] = i
        stay.update(range(lb, ub))
    cost = exact_sum(state[task] for task in range(tasks) if task not in stay)
    return Matching(cost, tuple(continues))


def _cells(old: Sequence[int], new: Sequence[int]) -> list[_Cell]:
    cells = []
    i = j = lb = 0
    while lb < old[-1]:
        ub = min(old[i + 1], new[j + 1])
        cells.append(_Cell(lb, ub, i, j))
        i += old[i + 1] == ub
        j += new[j + 1] == ub
        lb = ub
    return cells


def _chosen(cells: Sequence[_Cell], weights: Sequence[int]) -> list[_Cell]:
    """Return the cells of greatest weight no two of which share an interval."""
    shared = [(here.old == after.old, here.new == after.new) for here, after in pairwise(cells)]
    shared.append((False, False))
    # best[t][a][b]: most weight of cells t and after, given which of cell t's intervals are taken
    best = [[[0, 0], [0, 0]]]
    for weight, (old, new) in zip(reversed(weights), reversed(shared), strict=True):
        after = best[-1]
        here = [[after[a and old][b and new] for b in (0, 1)] for a in (0, 1)]
        here[0][0] = max(here[0][0], weight + after[old][new])
        best.append(here)
    best.reverse()
    chosen = []
    old_taken = new_taken = -1
    for t, (cell, weight, (old, new)) in enumerate(zip(cells, weights, shared, strict=True)):
        free = cell.old != old_taken and cell.new != new_taken
        if free and best[t][0][0] == weight + best[t + 1][old][new]:
            chosen.append(cell)
            old_taken, new_taken = cell.old, cell.new
    return chosen
