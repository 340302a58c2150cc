"""How evenly tasks can be spread over nodes at all, fast enough to ask at every batch.

With few tasks, or one heavy task, no placement meets a tight load limit: six equal tasks on four
nodes leave two on one of them, a third above the mean. Whoever asks for a limit asks here first.

*Any tasks on any node*: longest processing time first (Graham 1969), within 4/3 of the optimum.
Each task goes to the node that holds least, kept in a heap: O(m log m + m log n).

*Consecutive tasks*: the exact optimum. Nodes are filled one after the other up to a limit, O(m),
and the least limit for which they suffice is found by bisection. A fill says more than yes or no:
where the nodes suffice, the fullest of them is a limit that does; where they do not, the least
load that was refused is the next limit that changes anything. So both ends of the range are loads
of intervals, and they meet in the optimum, after some twenty fills for 20,000 tasks.

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

__all__ = ["attainable_tau", "even_bounds", "even_max_load"]

_FILL_OPERATIONS = 150.0
"""Inner steps a task that all fills of a bisection take."""
_PILE_OPERATIONS = 20.0
"""Inner steps a task and level of the heap."""


def attainable_tau(work: tuple[float, ...], nodes: int, tau: float, *, contiguous: bool) -> float:
    """Return ``tau``, or the least known one at which the tasks can be spread."""
    total = sum(work)
    if total <= 0 or nodes < 1:
        return tau
    if total / nodes + max(work) <= (1 + tau) * total / nodes:
        return tau
    fullest = even_max_load(work, nodes, contiguous=contiguous)
    return max(tau, fullest * nodes / total - 1)


def even_max_load(work: Sequence[float], nodes: int, *, contiguous: bool) -> float:
    """Return the load of the fullest node when ``work`` is spread over ``nodes`` evenly.

    With ``contiguous`` every node gets consecutive tasks, and no spread of those is more even.
    Without, the load is at most a third above that of the most even spread.
    """
    if contiguous:
        return _most_even(work, nodes)[1]
    used = max(1, min(nodes, len(work)))
    pile = _pile.for_operations(_PILE_OPERATIONS * len(work) * used.bit_length())
    rising = _listed(work) if pile is _pile.plain else _array(work)
    rising.sort()
    first, later = rising[-used:], rising[:-used][::-1]
    return float(pile(first, later)) if len(work) else 0.0


def even_bounds(work: Sequence[float], nodes: int) -> list[int]:
    """Return the ends ``0 = b_0 <= ... <= b_k = m`` of at most ``nodes`` intervals, k of them.

    The fullest interval is as light as intervals can be.
    """
    return _most_even(work, nodes)[0]


def _most_even(work: Sequence[float], nodes: int) -> tuple[list[int], float]:
    """Return the bounds of the most even intervals, and the load of the fullest."""
    fill = _fill.for_operations(_FILL_OPERATIONS * len(work))
    loads = _listed(work) if fill is _fill.plain else _array(work)
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


def _listed(work: Sequence[float]) -> Any:
    """Return the amounts for plain Python, which goes through a list much faster."""
    return [float(amount) for amount in work]


def _array(work: Sequence[float]) -> Any:
    """Return the amounts for compiled code."""
    import numpy as np

    return np.array(work, dtype=np.float64)


@kernel
def _fill(
    work: NDArray[np.float64], limit: float, bounds: NDArray[np.int64]
) -> tuple[int, float, float]:
    """Fill one node after the other up to ``limit``, and write where they end to ``bounds``.

    Returns how many are filled, 0 if these are too few; the load of the fullest; and the least
    load that was refused.
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
    """Put each amount on the node that holds least; return the load of the fullest.

    ``heap`` is what the nodes hold at first, in rising order.
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
