"""The least state moved in one migration with several stages, queries, slots and memory.

What a placement must keep is in :mod:`elastream.model.batch`. A problem with one stage and equal
slots is one with a single limit on the work of a node, and is not planned here.

1. *Shed*: what nodes must shed if tasks could be cut is a lower bound, and gives each stage the
   length at which it is reached (:mod:`~elastream.placement.staged.shedding`).
2. *Plan stages alone*, above some thousand pairs of task and node and with a task of each stage for
   each node: every stage by the ladder of free-step. Nodes that are too busy then exchange tasks.
   Where each query has one stage this is a bound, too, and mostly the optimum.
3. *Pack*: each node keeps whole tasks up to these lengths and the others are packed into the room
   that is left; once with these lengths, then with shorter ones, which leaves room for what whole
   tasks need. An even spread of all stages is another start: where limits are attainable, it keeps
   them (:func:`~elastream.placement.even_spread.even_placement`).
4. *Return*: what moved goes back where there is room, or where a cheaper task makes room.
5. *Solve* which tasks stay, which is a better bound and another start; then the whole program, up
   to some thousand pairs (:mod:`~elastream.placement.staged.program`).
6. *Anneal*: up to a hundred thousand pairs (:mod:`~elastream.placement.staged.annealing`).

Equal problems have equal plans. A plan is optimal if its cost meets a bound. Where neither a plan
nor a proof that there is none is found, the plan is ``unbalanced``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import cycle

import numpy as np

from elastream.model.batch import Limits
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, Target, exact_sum
from elastream.model.plan import Infeasible, StepPlan
from elastream.model.words import pluralize
from elastream.placement.even_spread import even_placement
from elastream.placement.matchings import most_valuable
from elastream.placement.staged.annealing import anneal
from elastream.placement.staged.piles import Piles, level, pack, relieve, return_home
from elastream.placement.staged.program import solve, stay
from elastream.placement.staged.shedding import Shares, kept_tasks, open_sets, shed
from elastream.placement.staged.step import Flags, Floats, Ints, StagedStep, least_length
from elastream.placement.state_ticks import plan_with_bound

_SHORTER = (1.0, 0.5, 0.0)
"""Parts of the best lengths, above those of an even spread, with which tasks are packed."""
_FEWER = 0.25
"""Part of the length of a stage by which fewer tasks stay at each attempt."""
_MATCHED, _MATCHINGS = 200, 2_000_000
"""Nodes to which an even spread is matched, and the steps it may take to match each stage."""
_CHOICES = 3
"""Most choices of the nodes that stay."""
_FILLED = (1.0, 0.95, 0.9)
"""How much of the limit of a stage tasks that stay may fill."""
_HEATS = (0.3, 0.1, 0.03)
_TRIAL, _MOST_TRIALS = 25, 100_000
"""Effort of a trial of annealing, and most of them from one start."""
_SMALL = 2500
"""Pairs of task and node up to which the program is solved before stages are planned alone."""
_LARGE = 100_000
"""Pairs of task and node from which the first placement that keeps the limits is taken."""


Stagewise = Callable[[StepProblem], Iterable[StepPlan | Infeasible]]
"""Plans each stage by itself, with smaller parts of the batch each time."""


def staged_step(
    problem: StepProblem, by_stage: Stagewise, *, effort: float
) -> StepPlan | Infeasible:
    """Return a plan that moves little state, with a proven bound, or why none exists."""
    reason = misfit(problem)
    if reason is not None:
        return Infeasible(reason)
    step = StagedStep.of(problem)
    shares = shed(step)
    bound = int(np.ceil(float(shares.bound)))
    pairs = len(step.work) * len(step.nodes)
    starts: list[Piles] = []
    whole_stages = len(step.work) >= len(step.query) * len(step.nodes) and not problem.seats
    if pairs > _SMALL and whole_stages:
        starts, proven = _stagewise(step, by_stage(problem))
        bound = max(bound, proven)
    if pairs <= _LARGE or not any(piles.keeps() for piles in starts):
        starts += _starts(problem, step, shares)
    best = _cheapest(step, starts)
    for program in (_stay, _solve):
        if best.keeps() and step.cost(best.place) <= bound:
            break
        found, proven = program(step, effort)
        if proven > step.state.sum() and not best.keeps():
            return Infeasible(_no_placement(problem))
        bound = max(bound, proven)
        best = _cheapest(step, (best, *found))
        starts = [*starts, *found]
    if pairs <= _LARGE:
        best = _annealed(step, best, starts, bound, int(min(_MOST_TRIALS, effort / _TRIAL)))
    if not best.keeps():
        return plan_with_bound(problem, _numbered(step, best.place), Fraction(0))
    place = level(best)
    cost = step.cost(place)
    return plan_with_bound(problem, _numbered(step, place), min(bound, cost) * step.state_unit)


def single_limit(problem: StepProblem) -> StepProblem | None:
    """Return the plain problem where one stage on equal slots has only a limit on its work."""
    slots = set(problem.slots or (1,))
    total = exact_sum(problem.work)
    several = problem.stages and max(problem.stages) > 0
    if several or problem.memory or problem.seats or len(slots) > 1 or 0 in slots or total == 0:
        return None
    each, limits = slots.pop(), Limits.of(problem)
    most = min(limits.batches[0], limits.stages[0], limits.busiest)
    work = problem.work if each == 1 else tuple(amount / each for amount in problem.work)
    tau = max(0.0, most * each * problem.target.nodes / total - 1)
    target = Target(problem.target.nodes, tau)
    return StepProblem(work, problem.state, problem.current, target, problem.copies)


def _starts(problem: StepProblem, step: StagedStep, shares: Shares) -> list[Piles]:
    """Return what is packed with several lengths, the cheapest for each choice of nodes."""
    start = most_kept(step, shares.kept)
    even = _even_start(problem, step)
    parts = _parts(step, even.longest, shares.lengths)
    if len(step.work) * len(step.nodes) > _LARGE:
        tried = (_attempt(step, lengths, start) for lengths in parts)
        found = next(filter(_improved, tried), None)
        return [found or even]
    choices = open_sets(step, start, _CHOICES) if step.allowed < len(step.nodes) else [start]
    starts = [_cheapest(step, [_attempt(step, each, open_) for each in parts]) for open_ in choices]
    return [*starts, even]


def _parts(step: StagedStep, even: Floats, best: Floats) -> list[Floats]:
    """Return lengths between those of an even spread and the best, within the limits."""
    more = np.maximum(0.0, best - even)
    count = len(step.most_batch)
    room = np.maximum(0.0, step.most_batch - np.bincount(step.query, even, count))
    part = np.minimum(1.0, room / np.maximum(np.bincount(step.query, more, count), 1e-300))
    return [even + each * part[step.query] * more for each in _SHORTER]


def _stagewise(step: StagedStep, plans: Iterable[StepPlan | Infeasible]) -> tuple[list[Piles], int]:
    """Return what stages came to each by itself, up to what keeps all limits, and a bound."""
    index = {int(node): number for number, node in enumerate(step.nodes)}
    tried: list[Piles] = []
    bound = 0
    for plan in plans:
        if isinstance(plan, Infeasible) or any(piles.keeps() for piles in tried):
            break
        nodes = plan.assignment.nodes_of_tasks
        if all(node in index for node in nodes):
            place = np.array([index[node] for node in nodes])
            piles = Piles(step, place, _open_nodes(step, place))
            relieve(piles)
            tried.append(piles)
            bound = max(bound, math.ceil(Fraction(plan.lower_bound) / step.state_unit))
        if len(step.work) * len(step.nodes) > _LARGE:
            break
    return tried, bound


def _stay(step: StagedStep, effort: float) -> tuple[list[Piles], int]:
    """Pack the tasks that need not stay, more of them until they fit, and return a bound."""
    tried: list[Piles] = []
    bound = 0
    for filled in _FILLED:
        found, proven = stay(step, filled=filled, effort=effort)
        bound = max(bound, proven if filled == 1 else 0)
        if found is None:
            break
        place = np.where(found.stays, step.home, -1)
        piles = Piles(step, place, _open_nodes(step, place))
        pack(piles, found.lengths, found.lengths)
        tried.append(piles)
        if piles.keeps():
            break
    return tried, bound


def _solve(step: StagedStep, effort: float) -> tuple[list[Piles], int]:
    """Return the best placement, and a bound, where there are few pairs of task and node."""
    place, bound = solve(step, effort=effort)
    return [] if place is None else [Piles(step, place, _open_nodes(step, place))], bound


def _annealed(
    step: StagedStep, best: Piles, starts: Sequence[Piles], bound: int, trials: int
) -> Piles:
    """Return the best that annealing makes of the starts while the bound is not met."""
    for heat, piles in zip(_HEATS, cycle(starts[:-1] or starts), strict=False):
        if trials == 0 or (best.keeps() and step.cost(best.place) <= bound):
            break
        place = anneal(piles, trials=trials, heat=heat)
        if place is not None:
            best = _cheapest(step, (best, Piles(step, place, piles.is_open)))
    return best


def _cheapest(step: StagedStep, tried: Sequence[Piles]) -> Piles:
    """Return the cheapest of those that keep the limits, with what can return; else the first."""
    kept = [piles for piles in tried if _improved(piles)]
    return min(kept, key=lambda piles: step.cost(piles.place), default=tried[0])


def _improved(piles: Piles) -> bool:
    """Bring home what can return, and say whether all limits are kept."""
    if not piles.keeps():
        return False
    if not piles.improved:
        return_home(piles)
        piles.improved = True
    return True


def _attempt(step: StagedStep, lengths: Floats, is_open: Flags) -> Piles:
    """Return the placement that is packed with these lengths.

    Stages that become longer are packed again with fewer tasks that stay, at last with none.
    """
    keep = np.ones(len(lengths))
    place = kept_tasks(step, lengths, is_open)
    while True:
        piles = Piles(step, place, is_open)
        pack(piles, lengths, keep * lengths)
        over = (piles.longest > lengths) & (keep > 0)
        if piles.keeps() or not (keep > 0).any():
            return piles
        if not over.any():
            over = keep > 0
        keep[over] = np.maximum(0.0, keep[over] - _FEWER)
        again = kept_tasks(step, keep * lengths, is_open)
        place = np.where(over[step.stage], again, piles.place)


def _even_start(problem: StepProblem, step: StagedStep) -> Piles:
    """Return an even spread, on the nodes where most of its state is."""
    number = {int(node): index for index, node in enumerate(step.nodes)}
    place = np.array([number[node] for node in even_placement(problem)])
    n = len(step.nodes)
    if n > _MATCHED:
        return Piles(step, place, _open_nodes(step, place))
    each = np.stack([step.slots, step.memory, step.seats])
    kinds = np.unique(each, axis=1, return_inverse=True)[1].ravel()
    every = np.ones(len(place), dtype=np.bool_)
    parts = [every, *(step.stage == stage for stage in range(len(step.query)))]
    for part in parts if len(parts) * n**3 <= _MATCHINGS else parts[:1]:
        matched = place.copy()
        used = np.unique(place)
        for kind in np.unique(kinds):
            piles = np.intersect1d(np.flatnonzero(kinds == kind), used)
            hosts = np.flatnonzero(kinds == kind) if part is every else piles
            stays = np.zeros((n, n))
            tasks = np.flatnonzero(part & (step.home >= 0))
            np.add.at(stays, (place[tasks], step.home[tasks]), step.state[tasks])
            if len(piles):
                nodes = hosts[most_valuable(stays[np.ix_(piles, hosts)])[1]]
                for pile, node in zip(piles, nodes, strict=True):
                    matched[part & (place == pile)] = node
        if Piles(step, matched, np.ones(n, dtype=np.bool_)).keeps():
            place = matched
    return Piles(step, place, _open_nodes(step, place))


def most_kept(step: StagedStep, kept: Floats) -> Flags:
    """Return which nodes are open: those that keep the most, then those with the most slots."""
    order = np.lexsort((np.arange(len(kept)), -step.memory, -step.slots, -kept))
    is_open = np.zeros(len(kept), dtype=np.bool_)
    is_open[order[: step.allowed]] = True
    return is_open


def _open_nodes(step: StagedStep, place: Ints) -> Flags:
    """Return the nodes that a placement uses, and others while more are allowed."""
    used = np.bincount(place[place >= 0], minlength=len(step.nodes)) > 0
    spare = np.flatnonzero(~used)[: step.allowed - int(used.sum())]
    used[spare] = True
    return np.asarray(used)


def _numbered(step: StagedStep, place: Ints) -> tuple[int, ...]:
    return tuple(step.nodes[place].tolist())


def misfit(problem: StepProblem) -> str | None:
    """Return why the tasks cannot fit if counting shows it, else ``None``."""
    count, more = problem.nodes_after, 1 + LOAD_TOLERANCE
    slots = np.array(problem.slots or (1,) * count, dtype=np.float64)
    usable, allowed = slots > 0, problem.target.nodes
    if not usable.any():
        return "no node has a slot"
    if problem.memory:
        room = np.sort(np.array(problem.memory, dtype=np.float64)[usable])[-allowed:]
        total, task = sum(problem.state), int(np.argmax(problem.state))
        if problem.state[task] > room[-1]:
            return f"task {task} has {problem.state[task]:g} bytes and a node holds {room[-1]:g}"
        if total > room.sum() * more:
            return f"the state has {total:g} bytes and {len(room)} nodes hold {room.sum():g}"
    if problem.seats:
        places = int(np.sort(np.array(problem.seats)[usable])[-allowed:].sum())
        if sum(problem.seated) > places:
            nodes = pluralize(min(allowed, int(usable.sum())), "node")
            return (
                f"{sum(problem.seated)} tasks never end and need a slot each: {places} on {nodes}"
            )
    work = np.array(problem.work, dtype=np.float64)
    stage = np.array(problem.stages or (0,) * len(work))
    limits, slots = Limits.of(problem), slots[usable]
    needs = [_Need.of(stage == s, work, slots, allowed) for s in range(int(stage.max()) + 1)]
    for s, (need, most) in enumerate(zip(needs, limits.stages, strict=True)):
        if need.length > most * more:
            return f"stage {s} takes at least {need}, and may take {most:.6g}"
    queries = problem.queries or (0,) * len(needs)
    for query, most in enumerate(limits.batches):
        parts = [need for need, q in zip(needs, queries, strict=True) if q == query]
        if sum(need.length for need in parts) > most * more:
            terms = " + ".join(map(str, parts))
            return f"a batch of query {query} takes at least {terms}, and may take {most:.6g}"
    busiest = _Need.of(work >= 0, work, slots, allowed)
    if busiest.length > limits.busiest * more:
        return f"some slot is busy for at least {busiest}, and may be for {limits.busiest:.6g}"
    return None


@dataclass(frozen=True, slots=True)
class _Need:
    """How long a stage takes at least, and why."""

    length: float
    why: str

    def __str__(self) -> str:
        return f"{self.length:.6g} ({self.why})"

    @classmethod
    def of(cls, part: Flags, work: Floats, slots: Floats, allowed: int) -> _Need:
        """Return the need of the tasks that are in ``part``."""
        length, together = least_length(work[part], slots, allowed)
        if together == 0:
            total = np.sort(slots)[-allowed:].sum()
            return cls(length, f"work {work[part].sum():.6g} on {total:g} slots")
        tasks = np.flatnonzero(part)
        if together == 1:
            task = tasks[work[tasks].argmax()]
            return cls(length, f"task {task} with work {work[task]:.6g}")
        crowd = (together - 1) * allowed + 1
        return cls(length, f"of its {crowd} longest tasks {together} share a node")


def _no_placement(problem: StepProblem) -> str:
    limits = Limits.of(problem)
    batches = ", ".join(f"{most:.6g}" for most in limits.batches[:5])
    rest = ", ..." if len(limits.batches) > 5 else ""
    return (
        f"no placement of the {len(problem.work)} tasks on {problem.target.nodes} nodes keeps all "
        f"limits, by search; a batch of each query may take {batches}{rest}"
    )
