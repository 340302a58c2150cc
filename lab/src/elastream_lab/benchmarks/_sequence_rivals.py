"""Two other ways to the optimal migration sequence, to compare the planner with.

``enumerated`` is the papers' OMS (figure 5 of paper 000, figure 8 of 001) made as quick as it goes:
every cut of every migration is valued once, backwards, with the compiled pair kernel. ``by_milp``
gives the same model to HiGHS: a 0/1 variable for every interval a step may use, a fractional one
for every two intervals of neighbouring steps that share tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastream.foresight.oms.pool import best_links
from elastream.foresight.oms.problem import SequenceProblem
from elastream.foresight.ssm.cuts import Cut, cut_of
from elastream.model.migration import LOAD_TOLERANCE, Target, exact_sum

Ints = NDArray[np.int64]


class _Span(NamedTuple):
    """An interval of a step, and its variable."""

    lb: int
    ub: int
    variable: int


def _reach(problem: SequenceProblem, target: Target) -> list[int]:
    """Return for each task the last bound of an interval that starts there."""
    sums = np.concatenate([[0.0], np.cumsum(np.array(problem.work, dtype=np.float64))])
    limit = target.limit(exact_sum(problem.work)) * (1 + LOAD_TOLERANCE)
    ends = np.searchsorted(sums, sums[:-1] + limit, side="right") - 1
    return [int(end) for end in ends]


def _cuts(problem: SequenceProblem, target: Target) -> Iterator[Cut]:
    tasks, reach = len(problem.work), _reach(problem, target)
    fewest = [0] * (tasks + 1)
    for lb in range(tasks - 1, -1, -1):
        fewest[lb] = 1 + fewest[reach[lb]]
    begun: list[Cut] = [(0,)]
    while begun:
        cut = begun.pop()
        if cut[-1] == tasks:
            yield cut
            continue
        longer = range(cut[-1] + 1, reach[cut[-1]] + 1)
        begun += [(*cut, ub) for ub in longer if len(cut) + fewest[ub] <= target.nodes]


def count_of_cuts(problem: SequenceProblem) -> int:
    """Return how many cuts all migrations allow together, counted without listing them."""
    total = 0
    for target in problem.targets:
        reach, tasks = _reach(problem, target), len(problem.work)
        ways = [[0] * (target.nodes + 1) for _ in range(tasks)] + [[1] * (target.nodes + 1)]
        for lb in range(tasks - 1, -1, -1):
            for nodes in range(1, target.nodes + 1):
                ways[lb][nodes] = sum(ways[ub][nodes - 1] for ub in range(lb + 1, reach[lb] + 1))
        total += ways[0][target.nodes]
    return total


def enumerated(problem: SequenceProblem) -> int:
    """Return the least cost by valuing every cut of every migration."""
    state = np.concatenate([[0], np.cumsum(np.array(problem.state, dtype=np.int64))])
    sums, lengths = _rows(state, [cut_of(problem.current)])
    kept = np.zeros(1, dtype=np.int64)
    for target in problem.targets:
        new_sums, new_lengths = _rows(state, list(_cuts(problem, target)))
        after, link = np.empty((2, len(new_lengths)), dtype=np.int64)
        best_links.compiled(sums, lengths, kept, new_sums, new_lengths, after, link)
        sums, lengths, kept = new_sums, new_lengths, after
    return int(state[-1]) * len(problem.targets) - int(kept.max())


def _rows(state: Ints, cuts: list[Cut]) -> tuple[Ints, Ints]:
    lengths = np.array([len(cut) for cut in cuts])
    sums = np.zeros((len(cuts), int(lengths.max())), dtype=np.int64)
    for row, cut in zip(sums, cuts, strict=True):
        row[: len(cut)] = state[list(cut)]
    return sums, lengths


def by_milp(problem: SequenceProblem, *, time_limit_s: float) -> tuple[float, float]:
    """Return the cost of the best plan HiGHS finds in time, and its lower bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    model = IntervalProgram(problem)
    matrix = coo_array(
        (model.entries, (model.rows, model.columns)), shape=(len(model.low), model.size)
    )
    outcome = milp(
        -np.array(model.gain),
        constraints=LinearConstraint(matrix, np.array(model.low), np.array(model.high)),
        bounds=Bounds(0, 1),
        integrality=np.array(model.whole),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0},
    )
    total = float(exact_sum(problem.state)) * len(problem.targets)
    cost = total + outcome.fun if outcome.x is not None else np.inf
    return cost, total + (outcome.mip_dual_bound if outcome.mip_dual_bound is not None else -total)


class IntervalProgram:
    """The integer program: rows, columns, entries and bounds of its constraints."""

    def __init__(self, problem: SequenceProblem) -> None:
        self.gain: list[float] = []
        self.whole: list[int] = []
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.entries: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        state = np.concatenate([[0.0], np.cumsum(np.array(problem.state, dtype=np.float64))])
        spans = [
            _Span(lb, ub, self._variable(0, 1)) for lb, ub in pairwise(cut_of(problem.current))
        ]
        for target in problem.targets:
            new = self._step(problem, target)
            self._pair(state, spans, new)
            spans = new

    @property
    def size(self) -> int:
        """How many variables there are."""
        return len(self.gain)

    def _variable(self, gain: float, whole: int) -> int:
        self.gain.append(gain)
        self.whole.append(whole)
        return len(self.gain) - 1

    def _constraint(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        for column, entry in terms:
            self.rows.append(len(self.low))
            self.columns.append(column)
            self.entries.append(entry)
        self.low.append(low)
        self.high.append(high)

    def _step(self, problem: SequenceProblem, target: Target) -> list[_Span]:
        """Add the intervals of a step: a path from the first bound to the last."""
        tasks, reach = len(problem.work), _reach(problem, target)
        spans = [
            _Span(lb, ub, self._variable(0, 1))
            for lb in range(tasks)
            for ub in range(lb + 1, reach[lb] + 1)
        ]
        for bound in range(tasks):
            terms = [(span.variable, 1.0) for span in spans if span.lb == bound]
            terms += [(span.variable, -1.0) for span in spans if span.ub == bound]
            self._constraint(terms, float(bound == 0), float(bound == 0))
        self._constraint([(span.variable, 1.0) for span in spans], 0, target.nodes)
        return spans

    def _pair(self, state: NDArray[np.float64], old: list[_Span], new: list[_Span]) -> None:
        """Add what may stay between two steps: a matching of intervals that are used."""
        of_old: dict[int, list[tuple[int, float]]] = {span.variable: [] for span in old}
        of_new: dict[int, list[tuple[int, float]]] = {span.variable: [] for span in new}
        for before in old:
            for after in new:
                lb, ub = max(before.lb, after.lb), min(before.ub, after.ub)
                if lb < ub and state[ub] > state[lb]:
                    match = self._variable(float(state[ub] - state[lb]), 0)
                    of_old[before.variable].append((match, 1.0))
                    of_new[after.variable].append((match, 1.0))
        for matches in (of_old, of_new):
            for variable, terms in matches.items():
                if terms:
                    self._constraint([*terms, (variable, -1.0)], -np.inf, 0)
