"""The most even spread of tasks over nodes, fast enough to compute at every batch.

With few tasks, or one heavy task, no placement meets a tight load limit: six equal tasks on four
nodes leave two on one of them, a third above the mean. This module computes which limit is
attainable.

*Any tasks on any node*: longest processing time first (Graham 1969), within 4/3 of the optimum.
Each task goes to the node with the least load, kept in a heap: O(m log m + m log n).

*Consecutive tasks*: the exact optimum. Nodes are filled one after the other up to a limit, O(m),
and the least limit at which they suffice is found by bisection. Each fill also narrows the range:
if the nodes suffice, the load of the fullest is a limit that suffices; if not, the least load that
was rejected is the next limit that changes anything. So both ends of the range are loads of
intervals, and they meet in the optimum, after about twenty fills for 20,000 tasks.

Loads are added in floating point, from the first task to the last, so a plain loop gives the same
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from elastream.placement.kernel import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_FILL_OPERATIONS = 150.0
"""Inner steps per task of all fills of a bisection."""
_PILE_OPERATIONS = 20.0
"""Inner steps per task and level of the heap."""


def attainable_tau(work: tuple[float, ...], nodes: int, tau: float, *, contiguous: bool) -> float:
    """Return ``tau``, or the least known value at which the tasks can be spread."""
    total = sum(work)
    if total <= 0 or nodes < 1:
        return tau
    if total / nodes + max(work) <= (1 + tau) * total / nodes:
        return tau
    fullest = even_max_load(work, nodes, contiguous=contiguous)
    return max(tau, fullest * nodes / total - 1)


def even_max_load(work: Sequence[float], nodes: int, *, contiguous: bool) -> float:
    """Return the load of the fullest node when ``work`` is spread evenly over ``nodes``.

    With ``contiguous`` every node gets consecutive tasks, and no such spread is more even. Without,
    the load is at most a third above that of the most even spread.
    """
    if contiguous:
        return _most_even(work, nodes)[1]
    used = max(1, min(nodes, len(work)))
    pile = _pile.for_operations(_PILE_OPERATIONS * len(work) * used.bit_length())
    rising = _as_list(work) if pile is _pile.plain else _array(work)
    rising.sort()
    first, later = rising[-used:], rising[:-used][::-1]
    return float(pile(first, later)) if len(work) else 0.0


def even_bounds(work: Sequence[float], nodes: int) -> list[int]:
    """Return the ends ``0 = b_0 <= ... <= b_k = m`` of at most ``nodes`` intervals, k of them.

    The load of the fullest interval is minimal.
    """
    return _most_even(work, nodes)[0]


def _most_even(work: Sequence[float], nodes: int) -> tuple[list[int], float]:
    """Return the bounds of the most even intervals, and the load of the fullest."""
    fill = _fill.for_operations(_FILL_OPERATIONS * len(work))
    loads = _as_list(work) if fill is _fill.plain else _array(work)
    best, high = [0, len(work)], float(sum(work))
    low = limit = max(max(work, default=0.0), high / nodes)
    bounds: Any = [0] * (min(nodes, len(work)) + 1)
    if fill is not _fill.plain:
        bounds = _array(bounds).astype("int64")
    while low < high:
        count, fullest, refused = fill(loads, limit, bounds)
        if count:
            best, high = [int(bound) for bound in bounds[: count + 1]], fullest
        else:
            low = refused
        limit = (low + high) / 2
        if limit >= high:  # there is no number between the two
            limit = low
    return best, float(high)


def _as_list(work: Sequence[float]) -> Any:
    """Return the amounts as a list, which plain Python reads much faster."""
    return [float(amount) for amount in work]


def _array(work: Sequence[float]) -> Any:
    """Return the amounts for compiled code."""
    import numpy as np

    return np.array(work, dtype=np.float64)


@kernel
def _fill(
    work: NDArray[np.float64], limit: float, bounds: NDArray[np.int64]
) -> tuple[int, float, float]:
    """Fill one node after the other up to ``limit``, and write their ends to ``bounds``.

    Returns the number of filled nodes, 0 if they do not suffice; the load of the fullest; and the
    least load that was rejected.
    """
    count, load, fullest, refused = 0, 0.0, 0.0, inf
    bounds[0] = 0
    for task in range(len(work)):
        more = load + work[task]
        if more > limit and task > bounds[count]:
            refused = min(refused, more)
            fullest = max(fullest, load)
            count += 1
            if count == len(bounds) - 1:
                return 0, fullest, refused
            bounds[count] = task
            more = 0.0 + work[task]
        load = more
    bounds[count + 1] = len(work)
    return count + 1, max(fullest, load), refused


@kernel
def _pile(heap: NDArray[np.float64], later: NDArray[np.float64]) -> float | np.float64:
    """Put each amount on the node with the least load; return the load of the fullest.

    ``heap`` are the initial loads, in rising order.
    """
    nodes = len(heap)
    for amount in later:
        load = heap[0] + amount
        node = 0
        while True:
            child = 2 * node + 1
            if child >= nodes:
                break
            if child + 1 < nodes and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= load:
                break
            heap[node] = heap[child]
            node = child
        heap[node] = load
    fullest: np.float64 = max(heap)
    return fullest
