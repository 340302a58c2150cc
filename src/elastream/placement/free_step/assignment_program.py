"""The free step as a mixed-integer program in which only some tasks travel, for HiGHS.

Model: ``x[j, i] = 1`` puts task j on node i, ``y[i] = 1`` lets node i hold tasks. A task is at home
on its node and where copies of its state are. It has a variable for each of its homes; a
*traveller* has one for every other node as well::

    minimise   sum of state over travellers that are not at home, and over others that have no node
    such that  sum_i x[j, i] = 1 for travellers, <= 1 for others
               sum_j work[j] x[j, i] <= capacity y[i]
               sum_j state[j] x[j, i] <= most[i] y[i]      over the tasks at home on node i
               sum_i y[i] <= allowed

``most[i]`` is the most that node i can keep, a knapsack. That row is implied, and makes the linear
relaxation at least as strong as the bound of :mod:`~elastream.placement.free_step.keeping`.

A task that is no traveller and has no node is assumed to find room somewhere. So every optimum is a
lower bound, and packing these tasks into the room that is left makes it a placement. What costs is
mostly a few heavy tasks for which no node has room: only they travel at first. Where bound and
placement differ the heaviest of the tasks that moved join them, up to all tasks; then the program
is exact.

HiGHS keeps a row only to about one part in a million: each answer is checked in whole numbers, and
an overfull node's tasks are forbidden to share any node (a cover inequality).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.placement.branches import branches_of
from elastream.placement.free_step.keeping import Keeping
from elastream.placement.free_step.packing import return_home, settle
from elastream.placement.free_step.whole_step import Answer, Ints, WholeStep
from elastream.placement.linear_programs import Rows, integer_program

_PROGRAMS = 8
_WIDEST = 8000
"""Most variables of a program: HiGHS works for some seconds before its first branch."""
_HEAVY, _LIGHTER = 8, 3
"""Tasks over this part of the capacity travel first, then tasks lighter by this factor."""
_LARGEST_COEFFICIENT = 1e6
_RESOLUTION = 5e-10
"""Costs closer than this share of the cost are equal to HiGHS."""
_PACKING_STEPS = 10_000_000
"""Inner steps for each placement."""


def assign(step: WholeStep, kept: Keeping, known: Answer, *, effort: float) -> Answer:
    """Return the best placement and bound found; ``effort`` limits all programs together."""
    homeless = kept.place < 0
    if known.place is not None:
        homeless |= step.moved(known.place)
    heavy = step.capacity // _HEAVY
    travels = homeless & (step.work > heavy)
    covers: list[Ints] = []
    for _ in range(_PROGRAMS):
        program = _Program.of(step, kept, travels, covers)
        branches = branches_of(effort, program.width)
        if branches == 0 or program.width > _WIDEST:
            break
        place, lower_bound, branches = program.solve(known.place, branches)
        effort -= program.width * max(1, branches)
        known = known.joined(Answer(None, lower_bound), step)
        if place is None:
            break
        overfull = np.flatnonzero(step.loads(place) > step.capacity)
        if len(overfull):
            covers += [np.flatnonzero(place == node) for node in overfull]
            continue
        known = known.joined(_packed(step, place), step)
        waiting = ~travels & (step.work > 0)
        if known.gap(step) == 0 or not waiting.any():
            break
        moved = (place < 0) if known.place is None else (place < 0) | step.moved(known.place)
        if (waiting & moved).any():
            waiting &= moved
        heavy = min(heavy, int(step.work[waiting].max()) // _LIGHTER)
        travels |= waiting & (step.work > heavy)
    return known


def _packed(step: WholeStep, place: Ints) -> Answer:
    """Return the placement with a node for every task, if they are found."""
    open_nodes = np.isin(np.arange(len(step.nodes)), place)
    spare = np.flatnonzero(~open_nodes)[: step.allowed - int(open_nodes.sum())]
    open_nodes[spare] = True
    packed = settle(step, place, open_nodes, steps=_PACKING_STEPS)
    if packed.min() < 0:
        return Answer(None, 0)
    return Answer(return_home(step, packed, open_nodes, steps=_PACKING_STEPS), 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """The program; one column per x, then one per y."""

    step: WholeStep
    task: Ints
    """The task of each x."""
    node: Ints
    """The node of each x."""
    cost: NDArray[np.float64]
    fixed_cost: int
    """State of the tasks that do not travel."""
    scale: float
    """Of the costs."""
    rows: Rows

    @property
    def width(self) -> int:
        """Number of variables."""
        return len(self.cost)

    @classmethod
    def of(
        cls, step: WholeStep, kept: Keeping, travels: NDArray[np.bool_], covers: list[Ints]
    ) -> _Program:
        tasks, nodes = len(step.work), len(step.nodes)
        own, homes = step.own
        away = step.away(np.arange(tasks)[:, None], np.arange(nodes))
        guests, hosts = np.nonzero(away & travels[:, None])
        task, node = np.concatenate([own, guests]), np.concatenate([homes, hosts])
        x, every = np.arange(len(task)), np.arange(nodes)
        y = len(task) + every
        scale = min(1.0, _LARGEST_COEFFICIENT / max(1, int(step.state.max())))
        saved = np.where(travels[own], 0, -step.state[own])
        cost = scale * np.concatenate([saved, step.state[guests], np.zeros(nodes, np.int64)])
        load = min(1.0, _LARGEST_COEFFICIENT / max(1, step.capacity))
        rows = Rows.of(task, x, 1, np.where(travels, 1, 0), np.ones(tasks))
        rows += Rows.of(
            np.concatenate([node, every]),
            np.concatenate([x, y]),
            np.concatenate([load * step.work[task], np.full(nodes, -load * step.capacity)]),
            -np.inf,
            np.zeros(nodes),
        )
        rows += Rows.of(
            np.concatenate([homes, every]),
            np.concatenate([x[: len(own)], y]),
            np.concatenate([scale * step.state[own], -scale * kept.most * (1 + _RESOLUTION)]),
            -np.inf,
            np.zeros(nodes),
        )
        rows += Rows.of(np.zeros(nodes), y, 1, 0, [step.allowed])
        for cover in covers:
            together = np.isin(task, cover)
            rows += Rows.of(node[together], x[together], 1, 0, np.full(nodes, len(cover) - 1))
        fixed_cost = int(step.state[~travels].sum())
        return cls(step, task, node, cost, fixed_cost, scale, rows)

    def solve(self, known: Ints | None, branches: int) -> tuple[Ints | None, int, int]:
        """Return the nodes of the tasks that have one, -1 for others; a bound; and the branches."""
        nodes = len(self.step.nodes)
        always_open = np.full(nodes, self.step.allowed == nodes)
        lower = np.concatenate([np.zeros(len(self.task)), always_open])
        start = None
        if known is not None:
            used = np.isin(np.arange(nodes), known) | always_open
            start = np.concatenate([known[self.task] == self.node, used]).astype(np.float64)
        found = integer_program(self.cost, self.rows, lower=lower, start=start, branches=branches)
        if found.infeasible:
            return None, int(self.step.state.sum()) + 1, found.branches
        lower_bound = self._proven(found.bound)
        if found.x is None:
            return None, lower_bound, found.branches
        place = np.full(len(self.step.work), -1)
        is_open = found.x[len(self.task) :] > 0.5  # nothing opens a node for a task without work
        placed = (found.x[: len(self.task)] > 0.5) & is_open[self.node]
        place[self.task[placed]] = self.node[placed]
        return place, lower_bound, found.branches

    def _proven(self, dual_bound: float) -> int:
        """Return the whole cost proven by the solver's bound on the scaled cost."""
        if not math.isfinite(dual_bound):
            return 0
        bound = dual_bound / self.scale + self.fixed_cost
        return max(0, math.ceil(bound - _RESOLUTION * abs(bound) - 1e-5))
