"""The step of the replication loop: one event in, the next state and the instructions out.

::

    watching ── due, or the bound broken ──► solving ── something moves ──► carrying out
       ▲                                        │ nothing does, or advice            │
       └────────────────────────────────────────┴────────────────────────────────────┘

Paper 004, section 6.2, figure 2: monitor, analyse, plan, execute, the plan every minute; here also
at once when batches break the bound, as the paper suggests. Moving itself is the business of the
loop that carries out (:mod:`elastream.control.migrate`); while it moves, nothing is decided here.
No clock, no I/O, no chance: time is the stream's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from elastream.control.decisions import Decision, Kind
from elastream.control.events import Log
from elastream.control.observation import Executor
from elastream.control.replication.analyse import Observed, problem_of
from elastream.control.replication.events import (
    CarryOut,
    CarryOutFinished,
    DelaysMeasured,
    Event,
    Failed,
    Instruction,
    Looked,
    PlanMade,
    Probe,
    Solve,
)
from elastream.control.replication.graph import OperatorGraph, operator_loads, operator_name
from elastream.control.replication.latency import Points, outside_ms, with_batch
from elastream.control.replication.policy import ReplicationPolicy
from elastream.control.replication.solving import ReplicationOrder, Solved
from elastream.control.replication.vivaldi import probe_pairs
from elastream.control.smoothing import SmoothedLoad
from elastream.model.checks import Number
from elastream.model.plan import Infeasible
from elastream.model.replication.plan import ReplicationPlan
from elastream.model.replication.problem import Deployment, Weights

__all__ = ["ReplicationState", "Transition", "started", "step"]

_MOST_LISTED = 6


@dataclass(frozen=True, slots=True)
class _Awaiting:
    """Something was asked for and has not been answered."""

    what: Literal["plan", "moves"]
    ticket: int


@dataclass(frozen=True, slots=True)
class ReplicationState:
    """What the loop remembers between two events."""

    policy: ReplicationPolicy
    graph: OperatorGraph
    load: SmoothedLoad = field(default_factory=SmoothedLoad)
    executors: tuple[Executor, ...] = ()
    utilisation: float | None = None
    points: Points = field(default_factory=dict)
    outside_ms: float | None = None
    """What batches take besides their stateful stages, smoothed."""
    probes: Mapping[tuple[str, str], float] = field(default_factory=dict)
    round_trips_ms: Mapping[tuple[str, str], float] = field(default_factory=dict)
    awaiting: _Awaiting | None = None
    probing: int | None = None
    """Ticket of the probe under way."""
    probed_at_ms: int | None = None
    probed_hosts: frozenset[str] = frozenset()
    moving: bool = False
    """Whether tasks were being moved after the last batch."""
    broken: int = 0
    """Batches in a row that took longer than the bound."""
    decided_at_ms: int | None = None
    """Time of the stream of the last plan, or of its end; at first, of the first batch."""
    plans: int = 0
    """How many plans were made."""
    next_ticket: int = 1


Transition = tuple[ReplicationState, tuple[Instruction, ...]]


def started(
    policy: ReplicationPolicy, graph: OperatorGraph, executors: tuple[Executor, ...]
) -> Transition:
    """Return the loop's first state and what it logs about itself."""
    state = ReplicationState(policy, graph, executors=executors)
    weights = policy.weights
    mode = "acts" if policy.act else "advises only"
    aim = (
        f"replicas of {len(graph.feeds)} operators within {policy.response_ms:g} ms a batch, "
        f"weights {weights.response:g}/{weights.cost:g}/{weights.downtime:g}"
    )
    return state, (_noted(state, "attach", f"attached, {mode}: {aim}"),)


def step(state: ReplicationState, event: Event) -> Transition:
    """Return the state after ``event`` and the instructions it leads to, in order."""
    if isinstance(event, Looked):
        return _looked(state, event)
    match event:
        case DelaysMeasured() if event.ticket == state.probing:
            measured = replace(
                state, probing=None, probes=event.probes, round_trips_ms=event.round_trips_ms
            )
            return measured, (_noted(measured, "wait", _told_delays(event)),)
        case Failed(why=why) if event.ticket == state.probing:
            log = _noted(state, "wait", f"delays between hosts are not known: {why}")
            return replace(state, probing=None), (log,)
    if state.awaiting is None or event.ticket != state.awaiting.ticket:
        return state, ()
    free = replace(state, awaiting=None, decided_at_ms=state.load.at_ms, broken=0)
    match event:
        case PlanMade(solved=solved):
            return _planned(free, solved)
        case CarryOutFinished():
            return free, ()
        case Failed(why=why):
            return free, (_noted(free, "abandon", f"no {state.awaiting.what}: {why}"),)
        case _:
            return state, ()


def _looked(state: ReplicationState, event: Looked) -> Transition:
    known = state.load.batch
    if known is not None and event.batch.batch <= known:
        return state, ()
    slow = event.batch.duration_ms > state.policy.response_ms
    disturbed = event.moving or state.moving  # the last batch of a migration loads state, too
    if not disturbed:
        state = _learnt(state, event)
    state = replace(
        state,
        load=event.load,
        executors=event.executors,
        utilisation=event.utilisation,
        moving=event.moving,
        broken=state.broken + 1 if slow else 0,
        decided_at_ms=event.load.at_ms if state.decided_at_ms is None else state.decided_at_ms,
    )
    state, probe = _probed(state)
    if disturbed or state.awaiting is not None:
        return replace(state, broken=0, decided_at_ms=state.load.at_ms), probe
    state, told = _decided(state, event)
    return state, (*probe, *told)


def _learnt(state: ReplicationState, event: Looked) -> ReplicationState:
    """Take in what the batch tells of response times; one that loads state tells nothing."""
    interval_ms = event.batch.interval_ms
    if not interval_ms:
        return state
    points = with_batch(state.points, event.batch, event.executors)
    outside, before = outside_ms(event.batch, event.executors), state.outside_ms
    if before is not None:
        weight = 1 - 2 ** (-interval_ms / 1000 / state.policy.smoothing_s)
        outside = before + weight * (outside - before)
    return replace(state, points=points, outside_ms=outside)


def _probed(state: ReplicationState) -> Transition:
    """Ask for delays where there are several hosts and theirs are not known, or no longer."""
    policy, at_ms = state.policy, state.load.at_ms
    hosts = frozenset(executor.host for executor in state.executors)
    if policy.probes == 0 or len(hosts) < 2 or state.probing is not None or at_ms is None:
        return state, ()
    fresh = state.probed_at_ms is not None and (
        at_ms - state.probed_at_ms < 1000 * policy.probe_every_s
    )
    if fresh and hosts <= state.probed_hosts:
        return state, ()
    ordered = tuple(sorted(hosts))
    pairs = probe_pairs(ordered, policy.probes, seed=policy.seed + state.next_ticket)
    known = {pair: ms for pair, ms in state.probes.items() if hosts.issuperset(pair)}
    probe = Probe(state.next_ticket, ordered, pairs, known)
    state = replace(
        state,
        probing=state.next_ticket,
        next_ticket=state.next_ticket + 1,
        probed_at_ms=at_ms,
        probed_hosts=hosts,
    )
    return state, (probe,)


def _decided(state: ReplicationState, event: Looked) -> Transition:
    policy, at_ms = state.policy, state.load.at_ms
    taken = f"the batch took {event.batch.duration_ms:.0f} ms of {policy.response_ms:g} allowed"
    figures: dict[str, Number] = {
        "batch_ms": round(event.batch.duration_ms, 1),
        "response_ms_bound": policy.response_ms,
    }
    since_s = 0.0
    if at_ms is not None and state.decided_at_ms is not None:
        since_s = (at_ms - state.decided_at_ms) / 1000
    due = since_s >= policy.period_s
    broken = state.broken >= policy.patience and since_s >= policy.cooldown_s
    if not due and not broken:
        return state, (_noted(state, "hold", taken, figures),)
    order = _order(state)
    if order is None:
        reason = f"{taken}; not every task has been measured yet"
        return state, (_noted(state, "hold", reason, figures),)
    why = f"{policy.period_s:g} s are over"
    if broken:
        why = f"{state.broken} batches in a row broke the bound"
    log = _noted(state, "hold", f"{taken}; {why}: solved anew", figures)
    solve = Solve(state.next_ticket, order)
    state = replace(
        state,
        awaiting=_Awaiting("plan", state.next_ticket),
        next_ticket=state.next_ticket + 1,
        plans=state.plans + 1,
    )
    return state, (log, solve)


def _order(state: ReplicationState) -> ReplicationOrder | None:
    policy = state.policy
    weights = policy.weights
    if state.plans == 0 and policy.first_ignores_downtime:
        weights = Weights(weights.response, weights.cost, 0)
    seen = Observed(
        state.load,
        state.executors,
        state.graph,
        state.points,
        state.outside_ms,
        state.round_trips_ms,
    )
    problem = problem_of(seen, policy, weights=weights)
    loads = operator_loads(state.load, state.executors)
    if problem is None or loads is None:
        return None
    return ReplicationOrder(problem, loads, policy.planner, policy.tau, policy.seconds)


def _planned(state: ReplicationState, solved: Solved) -> Transition:
    plan = solved.plan
    if isinstance(plan, Infeasible):
        return state, (_noted(state, "hold", f"no deployment is allowed: {plan.reason}"),)
    figures = _plan_figures(plan, solved)
    loads = operator_loads(state.load, state.executors) or ()
    before = {each.operator: each.replicas for each in loads}
    changes = _changes(before, plan.deployment)
    short = "" if solved.unmet is None else f"; as fast as can be, for {solved.unmet}"
    if not changes:
        reason = f"the deployment is the best there is, {plan.response_ms:.0f} ms{short}"
        return state, (_noted(state, "hold", reason, figures),)
    was = "saturated" if solved.stay.response_ms is None else f"{solved.stay.response_ms:.0f} ms"
    gain = f"response {was} to {plan.response_ms:.0f} ms, downtime {plan.downtime_ms:.0f} ms"
    reason = f"{'; '.join(changes)}: {gain}{short}"
    if not state.policy.act:
        return state, (_noted(state, "advise", f"would have {reason}", figures),)
    warm = {executor.id: executor.warm for executor in state.executors}
    cold = tuple(sorted({node for node in solved.goal.values() if not warm.get(node, True)}))
    ticket = state.next_ticket
    state = replace(state, awaiting=_Awaiting("moves", ticket), next_ticket=ticket + 1)
    return state, (_noted(state, "plan", reason, figures), CarryOut(ticket, solved.goal, cold))


def _changes(before: Mapping[int, tuple[str, ...]], after: Deployment) -> list[str]:
    found = []
    for operator, replicas in before.items():
        name = operator_name(operator)
        if set(after[name]) != set(replicas):
            found.append(f"{name} on {_listed(after[name])} (was {_listed(replicas)})")
    return found


def _plan_figures(plan: ReplicationPlan, solved: Solved) -> dict[str, Number]:
    figures: dict[str, Number] = {
        "objective": round(plan.objective, 6),
        "lower_bound": round(plan.lower_bound, 6),
        "response_ms": round(plan.response_ms, 1),
        "cost": round(plan.cost, 3),
        "downtime_ms": round(plan.downtime_ms, 1),
        "tasks_to_move": len(solved.goal),
        "cost_now": round(solved.stay.cost, 3),
    }
    if solved.stay.response_ms is not None:
        figures["response_ms_now"] = round(solved.stay.response_ms, 1)
    return figures


def _told_delays(event: DelaysMeasured) -> str:
    hosts = {host for pair in event.round_trips_ms for host in pair}
    far_ms = max(event.round_trips_ms.values(), default=0.0)
    return (
        f"delays between {len(hosts)} hosts from {len(event.probes)} probed pairs, "
        f"at most {far_ms:.1f} ms there and back"
    )


def _noted(
    state: ReplicationState, kind: Kind, reason: str, figures: Mapping[str, Number] | None = None
) -> Log:
    return Log(
        Decision(
            at_ms=state.load.at_ms,
            batch=state.load.batch,
            kind=kind,
            reason=reason,
            executors=len(state.executors),
            utilisation=None if state.utilisation is None else round(state.utilisation, 4),
            figures=figures or {},
        )
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST_LISTED]) + (", ..." if len(names) > _MOST_LISTED else "")
