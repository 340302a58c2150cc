"""The problem that a change poses to the planner, from the truth of this moment.

All queries are planned together, tasks in the order (query, operator, partition); nodes are the
executors, those of hosts that may be emptied last. A task whose executor was lost loads its state
wherever it goes, so it is entered as one without state, on the node of its neighbour. The planner
gets the copies of state that are there (standbys, and what an earlier plan of the same change had
copied): a task loads nothing where its copy is.

What the plan must keep is the tightest of

- ``tau``: a batch of each query takes at most ``1 + tau`` times what an even spread would take;
- the slots of each executor: a task of a Real-time query keeps one all the time;
- the purpose of the change (:class:`~elastream.core.goal.Purpose`);
- for more executors than hold tasks now: half of the relief that they can bring, since nobody
  pays for an executor that gets next to nothing;

and it is widened where no placement attains that, which the log says (``RouteOrder.widen``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from elastream.core.application import Observed
from elastream.core.change import Change
from elastream.core.goal import Purpose
from elastream.core.state import LoopState
from elastream.model.assignment import Assignment
from elastream.model.batch import Limits
from elastream.model.checks import Number
from elastream.model.migration import Copies, StepProblem, Target, exact_sum
from elastream.model.observation import TaskId

_AT_ONCE = ("", 0)
"""The stage of all Real-time queries: no query's name is empty."""
_LEAST_RELIEF = 0.5
"""The share of the relief of new executors that a plan brings at least."""


def step_problem(
    state: LoopState,
    change: Change,
    tasks: Sequence[TaskId],
    nodes: Sequence[str],
    wanted: int,
) -> StepProblem:
    """Return the problem; its tasks and nodes are numbered in these orders."""
    observed, policy = state.observed, state.policy
    loads = dict(observed.tasks())
    number_of = {executor: number for number, executor in enumerate(nodes)}
    places = [number_of.get(observed.where(task)) for task in tasks]
    scales = {} if change.purpose is None else change.purpose.scales
    realtime = {query.name for query in observed.queries.values() if query.realtime}
    stages, queries = stages_of(tasks, realtime)
    lasting = {stage for stage, task in zip(stages, tasks, strict=False) if task.query in realtime}
    if not stages and realtime:
        lasting = {0}
    added = wanted - len(nodes)  # where a plan is only advised
    problem = StepProblem(
        work=_work([loads[task].work * scales.get(task.query, 1.0) for task in tasks]),
        state=tuple(
            0 if place is None else round(loads[task].state_bytes)
            for place, task in zip(places, tasks, strict=True)
        ),
        current=Assignment(_filled(places), len(nodes)),
        target=Target(
            wanted, _tau(policy.tau if change.tau is None else change.tau, places, wanted)
        ),
        copies=_copies(state, tasks, places, number_of),
        stages=stages,
        queries=queries,
        slots=_slots(observed, nodes, added),
        memory=_memory(policy.state_bytes_per_executor, len(nodes) + max(0, added)),
        lasting=frozenset(lasting),
        seats=_seats(observed, nodes, added) if lasting else (),
    )
    if change.purpose is not None:
        problem = _with_purpose(problem, change.purpose)
    return problem


def _tau(tau: Number, places: Sequence[int | None], wanted: int) -> Number:
    """Return ``tau``, or what half of the relief that further executors can bring allows."""
    holders = len({place for place in places if place is not None})
    if not 0 < holders < wanted:
        return tau
    return min(tau, _LEAST_RELIEF * (wanted / holders - 1))


def _with_purpose(problem: StepProblem, purpose: Purpose) -> StepProblem:
    """Return the problem with the limits of a purpose where they are tighter."""
    room = purpose.busiest - purpose.outside / problem.target.nodes
    if room <= 0:
        return problem
    if problem.plain:
        even = exact_sum(problem.work) / problem.target.nodes
        tau = max(0.0, min(problem.target.tau, room / even - 1))
        return replace(problem, target=replace(problem.target, tau=tau))
    limits = tuple(min(limit, room) for limit in Limits.of(problem).batches)
    return replace(problem, most_batch=limits, most_busy=room)


def stages_of(
    tasks: Sequence[TaskId], realtime: Collection[str] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the stage of each task and the query of each stage; nothing where one is all.

    The stages of all ``realtime`` queries run at once: they are one, whose load is their sum.
    """
    pairs = [_AT_ONCE if task.query in realtime else (task.query, task.operator) for task in tasks]
    stages = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    if len(stages) == 1:
        return (), ()
    queries = {name: number for number, name in enumerate(dict.fromkeys(q for q, _ in stages))}
    return tuple(stages[pair] for pair in pairs), tuple(queries[q] for q, _ in stages)


def _slots(observed: Observed, nodes: Sequence[str], added: int) -> tuple[Number, ...]:
    """Return the slots of each executor over their mean; nothing where all have as many."""
    slots_of = {executor.id: executor.slots for executor in observed.executors}
    slots = [slots_of[node] for node in nodes]
    if len(set(slots)) == 1:
        return ()
    mean = sum(slots) / len(slots)
    return (*(number / mean for number in slots), *(1.0 for _ in range(added)))


def _seats(observed: Observed, nodes: Sequence[str], added: int) -> tuple[int, ...]:
    """Return how many tasks each executor has slots for that never end; nothing where all fit.

    The sources of Real-time queries are dealt to all executors and never end either.
    """
    realtime = [query for query in observed.queries.values() if query.realtime]
    tasks = sum(len(query.load.tasks) for query in realtime)
    sources = sum(max(0, query.slots - query.tasks) for query in realtime)
    slots_of = {executor.id: executor.slots for executor in observed.executors}
    dealt = -(-sources // (len(nodes) + added))
    seats = [max(0, slots_of[node] - dealt) for node in nodes]
    seats += [min(seats)] * added
    return () if min(seats) >= tasks else tuple(seats)


def _memory(most: int | None, nodes: int) -> tuple[Number, ...]:
    return () if most is None else (most,) * nodes


def _work(work: Sequence[float]) -> tuple[float, ...]:
    """Return what the tasks weigh; all alike where nothing has been measured."""
    rounded = tuple(round(amount, 12) for amount in work)
    return rounded if sum(rounded) > 0 else (1.0,) * len(work)


def _copies(
    state: LoopState,
    tasks: Sequence[TaskId],
    places: Sequence[int | None],
    number_of: Mapping[str, int],
) -> Copies:
    """Return the tasks that have a copy on a node which is not their own, and that node."""
    holders = [number_of.get(state.standbys.holder(task) or "") for task in tasks]
    return frozenset(
        (number, holder)
        for number, (place, holder) in enumerate(zip(places, holders, strict=True))
        if holder is not None and place not in (None, holder)
    )


def _filled(places: Sequence[int | None]) -> tuple[int, ...]:
    """Give a task that is nowhere the node of the one before it, else of the first that has one."""
    first = next((place for place in places if place is not None), 0)
    filled = []
    for place in places:
        first = first if place is None else place
        filled.append(first)
    return tuple(filled)
