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

*Several stages.* Each stage is spread by itself, the one with most work first; where a stage leaves
the choice, a task goes to the node with the least work of all stages. With unequal slots a task
goes where ``(load + work) / slots`` is least. Should the busiest node be too busy then all tasks
are spread by the work of all stages, each stage within what it took before, and once more whatever
stages take: what nodes are for comes before how even each query is, which may then be as busy as
they are. Of these spreads the one counts that exceeds its limits least.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from elastream.model.batch import Limits, Spread
from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, StepProblem
from elastream.model.plan import step_plan
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


def attainable(problem: StepProblem, *, contiguous: bool = False) -> StepProblem:
    """Return the problem with limits that an even spread attains, where it does not keep them.

    The threshold or what is required of batches and of the busiest node is widened; memory and
    seats never.
    """
    if problem.plain:
        work = tuple(map(float, problem.work))
        nodes, tau = problem.target.nodes, float(problem.target.tau)
        reached = attainable_tau(work, nodes, tau, contiguous=contiguous)
        if reached <= tau:
            return problem
        return replace(problem, target=replace(problem.target, tau=reached))
    limits = Limits.of(problem)
    if problem.slots and not any(problem.slots):
        return problem
    if not contiguous and (_surely_kept(problem, limits) or _kept_now(problem)):
        return problem
    attained = Spread.of(problem, even_placement(problem, contiguous=contiguous))
    tau, batches = problem.target.tau, problem.most_batch
    ideal = Limits.of(replace(problem, most_batch=(), target=replace(problem.target, tau=0)))
    if problem.within == "stage":
        tau = _widened(tau, attained.stages, limits.stages, ideal.stages)
    if batches or len(attained.batches) > 1:
        kept = zip(attained.batches, limits.batches, strict=True)
        if any(_over(length, most) for length, most in kept):
            batches = tuple(map(max, attained.batches, limits.batches))
    else:
        tau = _widened(tau, attained.batches, limits.batches, ideal.batches)
    busy = problem.most_busy
    if _over(attained.busiest, limits.busiest):
        busy = attained.busiest
    target = replace(problem.target, tau=tau)
    return replace(problem, target=target, most_batch=batches, most_busy=busy)


def _widened(
    tau: Number, attained: Sequence[Number], limits: Sequence[float], ideal: Sequence[float]
) -> Number:
    """Return the least threshold with which all limits are kept."""
    over = [
        length / even - 1
        for length, most, even in zip(attained, limits, ideal, strict=True)
        if even and _over(length, most)
    ]
    return max([tau, *over])


def _over(length: Number, most: float) -> bool:
    return length > most * (1 + LOAD_TOLERANCE)


def _kept_now(problem: StepProblem) -> bool:
    """Whether the tasks are where they keep all limits."""
    return step_plan(problem, problem.current.nodes_of_tasks).status != "unbalanced"


def _surely_kept(problem: StepProblem, limits: Limits) -> bool:
    """Whether an even spread keeps the limits because all tasks are light."""
    limits_of_nodes = problem.slots or problem.memory or problem.seats
    if limits_of_nodes or problem.most_busy is not None:
        return False
    stage_of = problem.stages or (0,) * len(problem.work)
    heaviest = [0.0] * len(limits.stages)
    means = [0.0] * len(limits.stages)
    for stage, work in zip(stage_of, problem.work, strict=True):
        heaviest[stage] = max(heaviest[stage], work)
        means[stage] += work / problem.target.nodes
    batches = [0.0] * len(limits.batches)
    for stage, query in enumerate(problem.queries or (0,) * len(means)):
        length = means[stage] + heaviest[stage]
        batches[query] += length
        if length > limits.stages[stage]:
            return False
    return all(length <= most for length, most in zip(batches, limits.batches, strict=True))


def even_placement(problem: StepProblem, *, contiguous: bool = False) -> tuple[int, ...]:
    """Return the node of each task when all stages are spread evenly, whatever state moves.

    Tasks may go to the nodes with the most slots. Memory is respected as far as that is seen.
    """
    stage_of = problem.stages or (0,) * len(problem.work)
    members: list[list[int]] = [[] for _ in range(max(stage_of) + 1)]
    for task, stage in enumerate(stage_of):
        members[stage].append(task)
    piles = _Piles(problem)
    totals = [sum(problem.work[task] for task in tasks) for tasks in members]
    for stage in sorted(range(len(members)), key=lambda stage: -totals[stage]):
        if contiguous:
            piles.add_consecutive(members[stage])
        else:
            piles.add_stage(members[stage])
    first = tuple(piles.place)
    limits = Limits.of(problem)
    spread = Spread.of(problem, first)
    if contiguous or not _over(spread.busiest, limits.busiest):
        return first
    queries = problem.queries or (0,) * len(members)
    most = [
        length * max(1.0, limits.batches[queries[stage]] / (spread.batches[queries[stage]] or 1))
        if problem.within == "batch"
        else max(length, limits.stages[stage])
        for stage, length in enumerate(spread.stages)
    ]
    widened = replace(
        limits,
        batches=tuple(
            max(limits.busiest, *pair) for pair in zip(limits.batches, spread.batches, strict=True)
        ),
        stages=tuple(
            max(limits.busiest, *pair) for pair in zip(limits.stages, spread.stages, strict=True)
        ),
    )
    best, least = first, _excess(spread, widened)
    for lengths in (most, [inf] * len(most)):
        again = _Piles(problem)
        again.add_all(stage_of, lengths)
        excess = _excess(Spread.of(problem, again.place), widened)
        if excess < least:
            best, least = tuple(again.place), excess
        if not _over(least, 1.0):
            break
    return best


def _excess(spread: Spread, limits: Limits) -> float:
    """Return the most by which a limit is exceeded, as a multiple of it."""
    reached = (*spread.batches, *spread.stages, spread.busiest)
    allowed = (*limits.batches, *limits.stages, limits.busiest)
    return max(length / most for length, most in zip(reached, allowed, strict=True) if most)


class _Piles:
    """Nodes that are filled task by task."""

    def __init__(self, problem: StepProblem) -> None:
        count = problem.nodes_after
        self.work, self.state = problem.work, problem.state
        self.slots = problem.slots or (1,) * count
        self.room: list[Number] = list(problem.memory or (inf,) * count)
        self.seated = problem.seated
        self.seats: list[Number] = list(problem.seats or (inf,) * count)

        def order(node: int) -> tuple[Number, ...]:
            return (-self.slots[node], -self.seats[node], -self.room[node], node)

        rank = sorted(range(count), key=order)
        self.nodes = [node for node in rank[: problem.target.nodes] if self.slots[node]]
        several = len({self.slots[node] for node in self.nodes}) > 1
        self.alike = not (several or problem.memory or problem.seats)
        self.total: list[float] = [0.0] * count
        self.place = [self.nodes[0]] * len(problem.work)

    def _put(self, task: int, node: int) -> None:
        self.place[task] = node
        self.total[node] += self.work[task] / self.slots[node]
        self.room[node] -= self.state[task]
        self.seats[node] -= self.seated[task]

    def _has_room(self, node: int, task: int) -> bool:
        return self.room[node] >= self.state[task] and self.seats[node] >= self.seated[task]

    def add_stage(self, tasks: Sequence[int]) -> None:
        """Put each task, the longest first, where the stage then takes the least time."""
        tasks = sorted(tasks, key=lambda task: -self.work[task])
        if self.alike and len(tasks) <= len(self.nodes):  # each has a node of its own
            emptiest = sorted(self.nodes, key=self.total.__getitem__)
            for task, node in zip(tasks, emptiest, strict=False):
                self._put(task, node)
            return
        heaps: dict[Number, list[tuple[float, float, int]]] = {}
        for node in self.nodes:
            heaps.setdefault(self.slots[node], []).append((0.0, self.total[node], node))
        for heap in heaps.values():
            heapify(heap)
        for task in tasks:
            slots = min(heaps, key=lambda slots: _after(heaps[slots][0], self.work[task] / slots))
            full: list[tuple[float, float, int]] = []
            if not self._has_room(heaps[slots][0][2], task):
                slots, full = self._with_room(heaps, task)
            load, _, node = heappop(heaps[slots])
            self._put(task, node)
            for entry in (*full, (load + self.work[task] / slots, self.total[node], node)):
                heappush(heaps[slots], entry)

    def _with_room(
        self, heaps: dict[Number, list[tuple[float, float, int]]], task: int
    ) -> tuple[Number, list[tuple[float, float, int]]]:
        """Bring a node with memory for the task to the top; return its slots, and what was above.

        Where none has memory it is the node with the most.
        """
        entries = [(entry, slots) for slots, heap in heaps.items() for entry in heap]
        roomy = [each for each in entries if self._has_room(each[0][2], task)]
        if not roomy:
            freest = max(self._freedom(each[0][2], task) for each in entries)
            roomy = [each for each in entries if self._freedom(each[0][2], task) == freest][:1]
        best, slots = min(roomy, key=lambda each: _after(each[0], self.work[task] / each[1]))
        full = []
        while heaps[slots][0] != best:
            full.append(heappop(heaps[slots]))
        return slots, full

    def _freedom(self, node: int, task: int) -> tuple[bool, Number]:
        return self.seats[node] >= self.seated[task], self.room[node]

    def add_all(self, stage_of: Sequence[int], most: Sequence[float]) -> None:
        """Put each task, the longest first, on the least busy node where its stage keeps ``most``.

        Where none does, on the least busy of all.
        """
        heap = [(0.0, node) for node in self.nodes]
        loads: dict[tuple[int, int], float] = {}
        for task in sorted(range(len(stage_of)), key=lambda task: -self.work[task]):
            stage, rejected = stage_of[task], []
            while heap:
                entry = heappop(heap)
                node = entry[1]
                load = loads.get((stage, node), 0.0) + self.work[task] / self.slots[node]
                if not _over(load, most[stage]) and self._has_room(node, task):
                    break
                rejected.append(entry)
            else:
                node = max(rejected, key=lambda entry: (*self._freedom(entry[1], task), -entry[0]))[
                    1
                ]
                rejected = [entry for entry in rejected if entry[1] != node]
                load = loads.get((stage, node), 0.0) + self.work[task] / self.slots[node]
            loads[stage, node] = load
            self._put(task, node)
            for entry in (*rejected, (self.total[node], node)):
                heappush(heap, entry)

    def add_consecutive(self, tasks: Sequence[int]) -> None:
        """Give consecutive tasks to each node, so that the stage takes the least time."""
        work = [float(self.work[task]) for task in tasks]
        if len({self.slots[node] for node in self.nodes}) == 1:
            bounds = even_bounds(work, len(self.nodes))
            pieces = sorted(pairwise(bounds), key=lambda piece: -sum(work[slice(*piece)]))
            nodes = sorted(self.nodes, key=self.total.__getitem__)
        else:
            bounds = _uneven_bounds(work, [self.slots[node] for node in self.nodes])
            pieces, nodes = list(pairwise(bounds)), self.nodes
        for (lb, ub), node in zip(pieces, nodes, strict=False):
            for task in tasks[lb:ub]:
                self._put(task, node)


def _after(entry: tuple[float, float, int], more: float) -> tuple[float, float, int]:
    load, total, node = entry
    return load + more, total, node


def _uneven_bounds(work: Sequence[float], slots: Sequence[Number]) -> list[int]:
    """Return the ends of the intervals of nodes with these slots, one after the other.

    The most work on a slot is least, to the precision of sixty halvings of its range.
    """
    sums = [0.0, *accumulate(work)]

    def filled(most: float) -> list[int]:
        ends = [0]
        for each in slots:
            ends.append(bisect_right(sums, sums[ends[-1]] + most * each) - 1)
        return ends

    low, high = 0.0, sums[-1] / slots[0] * (1 + LOAD_TOLERANCE)
    for _ in range(60):
        middle = (low + high) / 2
        if filled(middle)[-1] == len(work):
            high = middle
        else:
            low = middle
    return filled(high)


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
