"""The certificate: check that a plan is valid, and recompute its cost and loads.

It shares no code with the planners or the constructors of plans: it reads the fields of problem and
plan and recomputes everything in exact rational arithmetic. Tests and benchmarks check every plan
with it. A plan without faults is valid, and its figures are true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from elastream.model.checks import Number
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan

ROUNDING = Fraction(3, 10**9)
"""Relative tolerance for figures that planners compute in floating point."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Result of an independent check of a plan."""

    faults: tuple[str, ...]
    """One sentence for each claim of the plan that does not hold; empty for a good plan."""
    cost: Fraction
    """State that really has to be loaded, in bytes."""
    max_load: Fraction
    """Work of the fullest node, the highest over all steps of a sequence."""


def certify_step(
    problem: StepProblem, plan: StepPlan, *, contiguous: bool = False, balanced: bool = True
) -> Certificate:
    """Check ``plan`` against ``problem``.

    ``contiguous`` requires that every node holds consecutive tasks of each stage; ``balanced`` that
    all limits are kept and that no more nodes are used than allowed.
    """
    before, after = problem.current.nodes_of_tasks, plan.assignment.nodes_of_tasks
    numbered = max(problem.current.nodes, problem.target.nodes)
    if len(after) != len(before) or plan.assignment.nodes != numbered:
        shape = f"{len(after)} tasks on {plan.assignment.nodes} nodes"
        return Certificate((f"the plan places {shape}",), Fraction(0), Fraction(0))
    faults = [f"task {j} is on node {i}" for j, i in enumerate(after) if not 0 <= i < numbered]
    if faults:
        return Certificate(tuple(faults), Fraction(0), Fraction(0))

    loads = [Fraction(0)] * numbered
    cost = Fraction(0)
    moved = []
    for task, (source, target) in enumerate(zip(before, after, strict=True)):
        loads[target] += Fraction(problem.work[task])
        if source != target:
            loaded = 0 if (task, target) in problem.copies else problem.state[task]
            cost += Fraction(loaded)
            moved.append((task, source, target, loaded))
    max_load = max(loads)
    total = sum(loads, Fraction(0))
    limit = (1 + Fraction(problem.target.tau)) * total / problem.target.nodes

    faults += differing("cost", plan.cost, cost)
    faults += differing("max_load", plan.max_load, max_load)
    faults += differing("limit", plan.limit, limit)
    if [tuple(move) for move in plan.moves] != moved:
        faults.append("moves are not the tasks whose node changes")
    stages = problem.stages or (0,) * len(after)
    if contiguous:
        for stage in sorted(set(stages)):
            held = [i for i, s in zip(after, stages, strict=True) if s == stage]
            if len({i for i, _ in _runs(held)}) != sum(1 for _ in _runs(held)):
                faults.append("a node holds tasks that are not consecutive")
    lengths, limits = _batches(problem, stages, after)
    if not problem.slots or all(problem.slots[node] for node in after):
        faults += _claims(plan, lengths, limits)
    if balanced:
        faults += _overruns(problem, stages, after, lengths, limits)
        used, allowed = len(set(after)), problem.target.nodes
        if used > allowed:
            faults.append(f"{used} nodes hold tasks where {allowed} may")
    if Fraction(plan.lower_bound) > cost * (1 + ROUNDING):
        faults.append(f"lower bound {plan.lower_bound} is above the cost {float(cost)}")
    if plan.status == "optimal" and plan.lower_bound != plan.cost:
        faults.append("called optimal with a lower bound below the cost")
    return Certificate(tuple(faults), cost, max_load)


def differing(name: str, claimed: Number, actual: Fraction) -> Iterator[str]:
    """Yield a fault where a figure of the plan is not the one recomputed."""
    if abs(Fraction(claimed) - actual) > ROUNDING * max(abs(actual), Fraction(1, 10**12)):
        yield f"{name} is said to be {claimed} and is {float(actual)}"


def _on_a_slot(
    problem: StepProblem, stages: Sequence[int], after: Sequence[int]
) -> dict[tuple[int, int], Fraction | None]:
    """Return the work of each stage on a slot of each node; ``None`` where a node has no slot."""
    held: dict[tuple[int, int], Fraction] = {}
    for task, pair in enumerate(zip(stages, after, strict=True)):
        held[pair] = held.get(pair, Fraction(0)) + Fraction(problem.work[task])
    slots = problem.slots or (1,) * problem.nodes_after
    return {
        (stage, node): work / Fraction(slots[node]) if slots[node] else None
        for (stage, node), work in held.items()
    }


def _batches(
    problem: StepProblem, stages: Sequence[int], after: Sequence[int]
) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """Return how long the batch of each query takes, and how long it may."""
    fullest: dict[int, Fraction] = {}
    for (stage, _), work in _on_a_slot(problem, stages, after).items():
        fullest[stage] = max(fullest.get(stage, Fraction(0)), work or Fraction(0))
    lengths: dict[int, Fraction] = {}
    limits: dict[int, Fraction] = {}
    shares = _shares(problem, stages)
    for stage, length in fullest.items():
        query = problem.queries[stage] if problem.queries else 0
        lengths[query] = lengths.get(query, Fraction(0)) + length
        limits[query] = limits.get(query, Fraction(0)) + shares[stage]
    if problem.most_batch:
        limits = {query: Fraction(problem.most_batch[query]) for query in limits}
    return lengths, limits


def _shares(problem: StepProblem, stages: Sequence[int]) -> dict[int, Fraction]:
    """Return the threshold for each stage: its work on a slot, evenly spread, and tau more."""
    total = Fraction(problem.target.nodes)
    if problem.slots:
        slots = sorted(map(Fraction, problem.slots))
        total = sum(slots[-problem.target.nodes :], Fraction(0))
    work: dict[int, Fraction] = {}
    for task, stage in enumerate(stages):
        work[stage] = work.get(stage, Fraction(0)) + Fraction(problem.work[task])
    return {s: (1 + Fraction(problem.target.tau)) * each / total for s, each in work.items()}


def _claims(
    plan: StepPlan, lengths: dict[int, Fraction], limits: dict[int, Fraction]
) -> Iterator[str]:
    """Yield a fault where the batch of the plan is not that of the query nearest to its limit."""
    nearest = max((lengths[q] / limits[q] if limits[q] else Fraction(0)) for q in lengths)
    for query, length in lengths.items():
        near = (length / limits[query] if limits[query] else Fraction(0)) >= nearest * (
            1 - ROUNDING
        )
        batch = not list(differing("batch", plan.batch, length))
        if near and batch and not list(differing("limit", plan.batch_limit, limits[query])):
            return
    yield f"no query nearest to its limit takes {plan.batch} of {plan.batch_limit}"


def _overruns(
    problem: StepProblem,
    stages: Sequence[int],
    after: Sequence[int],
    lengths: dict[int, Fraction],
    limits: dict[int, Fraction],
) -> Iterator[str]:
    """Yield a fault for each limit that is not kept."""
    more = 1 + ROUNDING
    for query, length in lengths.items():
        if length > limits[query] * more:
            over = f"over the limit of {float(limits[query])}"
            yield f"a batch of query {query} takes {float(length)}, {over}"
    totals: dict[int, Fraction] = {}
    state: dict[int, Fraction] = {}
    shares = _shares(problem, stages)
    for (stage, node), work in _on_a_slot(problem, stages, after).items():
        if work is None:
            yield f"node {node} holds tasks and has no slot"
            continue
        totals[node] = totals.get(node, Fraction(0)) + work
        if problem.within == "stage" and work > shares[stage] * more:
            yield f"node {node} holds {float(work)} of stage {stage}, over {float(shares[stage])}"
    lasting: dict[int, int] = {}
    for task, node in enumerate(after):
        state[node] = state.get(node, Fraction(0)) + Fraction(problem.state[task])
        lasting[node] = lasting.get(node, 0) + (stages[task] in problem.lasting)
    for node, tasks in lasting.items():
        if problem.seats and tasks > (room := problem.seats[node]):
            yield f"node {node} holds {tasks} tasks that never end, and has {room} slots"
    parts = any(isinstance(size, float) for size in (*problem.state, *problem.memory))
    for node, total in totals.items():
        if problem.most_busy is not None and total > Fraction(problem.most_busy) * more:
            yield f"node {node} is busy for {float(total)}, over {problem.most_busy}"
        if problem.memory and state[node] > Fraction(problem.memory[node]) * (more if parts else 1):
            yield f"node {node} holds {float(state[node])} bytes, over {problem.memory[node]}"


def _runs(nodes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (node, first task) of each run of consecutive tasks on one node."""
    for task, node in enumerate(nodes):
        if task == 0 or nodes[task - 1] != node:
            yield node, task
