"""Replication: executors and replicas by response time, price and downtime (EDRP, paper 004).

The goal solves the problem of :mod:`~.problem` every ``period_s``, and at once when batches break
the bound. This is the loop of paper 004, section 6.2, figure 2 (monitor, analyse, plan, execute),
where a plan is made every minute. The targets follow from the plan: one executor for each node that
holds replicas in it, and each operator's partitions on its replicas. While the set of replicas is
unchanged, partitions move only when the load of a replica is above what ``tau`` allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from elastream.core.application import Observed
from elastream.core.goal import (
    Failure,
    MadePlanner,
    Probe,
    Question,
    Think,
    Wanted,
    within_bounds,
)
from elastream.core.load import mean, weight_of
from elastream.model.checks import Number
from elastream.model.observation import BatchObservation
from elastream.model.plan import Infeasible
from elastream.model.words import join_names
from elastream.replication.goal.experience import Experience
from elastream.replication.goal.operators import OperatorLoad, operator_loads, stateful_share
from elastream.replication.goal.placing import fullest_share, replica_planner
from elastream.replication.goal.problem import ProblemInputs, problem_of
from elastream.replication.goal.response import (
    Points,
    RowResponse,
    outside_ms,
    response_of,
    with_batch,
)
from elastream.replication.goal.settings import ReplicationSettings
from elastream.replication.goal.solving import Solve, Solved, executors_for
from elastream.replication.goal.vivaldi import probe_pairs, round_trips_ms
from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import Deployment, ReplicationProblem

_SMOOTHING_S: Final = 10.0
_CLEARLY: Final = 1.05
"""A share must be above its limit by this factor before partitions move for it."""
_AS_FAST: Final = 0.95
"""When the bounds cannot be met, a new plan must cut the response time to this share or less."""


@dataclass(frozen=True, slots=True)
class ReplicationMemory:
    """State of the goal between two observations."""

    points: Points = field(default_factory=dict)
    outside_ms: Mapping[str, float] = field(default_factory=dict)
    """Time that batches of each query spend outside their stateful stages, smoothed."""
    experience: Experience = field(default_factory=Experience)
    probes: Mapping[tuple[str, str], float] = field(default_factory=dict)
    round_trips_ms: Mapping[tuple[str, str], float] = field(default_factory=dict)
    probing: bool = False
    probed_ms: int | None = None
    probed_hosts: frozenset[str] = frozenset()
    solving: bool = False
    broken: Mapping[str, int] = field(default_factory=dict)
    """Number of consecutive batches of each query whose rows took longer than the bound."""
    decided_ms: int | None = None
    """Time of the last plan, or of the end of its change; initially of the first observation."""
    plans: int = 0
    """Number of plans so far."""
    deployment: Deployment | None = None
    """The last plan, while it is the target and has not been reached."""
    known: frozenset[str] = frozenset()
    """Executors that were alive when that plan was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication(ReplicationSettings):
    """Keep the response time within a bound at the lowest price."""

    def memory(self) -> ReplicationMemory:
        """Return an empty memory."""
        return ReplicationMemory()

    def after_batch(
        self,
        memory: ReplicationMemory,
        observed: Observed,
        batch: BatchObservation,
        *,
        disturbed: bool,
    ) -> ReplicationMemory:
        """Update response times, speeds and the cost of moves."""
        query = observed.queries[batch.query]
        experience = memory.experience.with_batch(batch, query, disturbed=disturbed)
        slow = response_of(query, batch).total_ms > self.response_ms
        broken = {**memory.broken, batch.query: memory.broken.get(batch.query, 0) + 1}
        if not slow or disturbed:
            broken[batch.query] = 0
        memory = replace(memory, experience=experience, broken=broken)
        if not disturbed:  # a query that is paused for a change will return
            memory = _without_departed(memory, observed)
        if disturbed or not batch.interval_ms:
            return memory
        weight = weight_of(batch.interval_ms / 1000, _SMOOTHING_S)
        outside = outside_ms(batch, observed.executors)
        previous_ms = memory.outside_ms.get(batch.query)
        return replace(
            memory,
            points=with_batch(memory.points, batch, observed.executors),
            outside_ms={**memory.outside_ms, batch.query: mean(previous_ms, outside, weight)},
        )

    def wanted(
        self, memory: ReplicationMemory, observed: Observed
    ) -> tuple[ReplicationMemory, Wanted, tuple[Question, ...]]:
        """Request a plan when one is due; until it arrives, hold the current target."""
        if memory.decided_ms is None:
            memory = replace(memory, decided_ms=observed.now_ms)
        memory, questions = self._probed(memory, observed)
        bounded = within_bounds(observed)
        if bounded is not None:
            return memory, bounded, questions
        hold = self._hold(observed, "")
        if memory.solving:
            return memory, self._hold(observed, "; a plan is being worked out"), questions
        why = self._due(memory, observed)
        if why is None:
            return memory, hold, questions
        problem = self._problem(memory, observed)
        if problem is None:
            unknown = self._hold(observed, "; not every task has been measured yet")
            return memory, unknown, questions
        memory = replace(memory, solving=True, plans=memory.plans + 1)
        repairs = _changes(operator_loads(observed) or (), problem.current or {})
        solve = Think(Solve(problem, self.effort, tuple(repairs)))
        return memory, self._hold(observed, f"; {why}: solved again"), (*questions, solve)

    def after_answer(
        self, memory: ReplicationMemory, observed: Observed, question: Question, answer: Any
    ) -> tuple[ReplicationMemory, Wanted | None]:
        """Store measured delays between hosts, or turn a solved plan into the target."""
        if isinstance(question, Probe):
            memory = replace(memory, probing=False)
            if isinstance(answer, Failure):
                return memory, None
            hosts = sorted({executor.host for executor in observed.executors})
            probes = {**memory.probes, **answer}
            table = round_trips_ms(hosts, probes, seed=self.seed + memory.plans)
            return replace(memory, probes=probes, round_trips_ms=table), None
        memory = replace(memory, solving=False, decided_ms=observed.now_ms, broken={})
        if isinstance(answer, Failure):
            return memory, None
        return self._planned(memory, observed, answer)

    def planner(
        self,
        memory: ReplicationMemory,
        observed: Observed,
        executors: int,
    ) -> MadePlanner | None:
        """Return the planner that carries out the last plan, if that still fits the executors."""
        if memory.deployment is None:
            return None
        return replica_planner(memory.deployment, memory.known, observed, executors, self)

    def after_change(
        self,
        memory: ReplicationMemory,
        observed: Observed,
        *,
        done: bool,  # noqa: ARG002
    ) -> ReplicationMemory:
        """Drop the plan and restart the cool-down."""
        return replace(memory, deployment=None, decided_ms=observed.now_ms, broken={})

    def _hold(self, observed: Observed, more: str) -> Wanted:
        slowest = max(
            map(response_of, observed.queries.values()),
            key=lambda response: response.total_ms,
            default=RowResponse(0.0, 0.0),
        )
        takes = f"a row takes up to {slowest.total_ms:.0f} ms of {self.response_ms:g} allowed"
        reason = f"{takes} ({slowest}){more}"
        figures: dict[str, Number] = {
            "slowest_batch_ms": round(slowest.batch_ms, 1),
            "slowest_row_ms": round(slowest.total_ms, 1),
            "response_ms_bound": self.response_ms,
        }
        busy = self.utilisation(observed)
        return Wanted("hold", len(observed.executors), reason, busy, figures)

    def _due(self, memory: ReplicationMemory, observed: Observed) -> str | None:
        """Return why the problem should be solved now, or ``None`` if it should not."""
        since_s = ((observed.now_ms or 0) - (memory.decided_ms or 0)) / 1000
        broken = [name for name, times in memory.broken.items() if times >= self.patience]
        if broken and since_s >= self.cooldown_s:
            return f"{memory.broken[broken[0]]} batches of {broken[0]} in a row broke the bound"
        return f"{self.period_s:g} s are over" if since_s >= self.period_s else None

    def _problem(self, memory: ReplicationMemory, observed: Observed) -> ReplicationProblem | None:
        weights = self.weights
        if memory.plans == 0 and self.first_ignores_downtime:
            weights = replace(weights, downtime=0)
        inputs = ProblemInputs(
            memory.points, memory.outside_ms, memory.round_trips_ms, memory.experience
        )
        return problem_of(observed, inputs, self, weights=weights)

    def _probed(
        self, memory: ReplicationMemory, observed: Observed
    ) -> tuple[ReplicationMemory, tuple[Question, ...]]:
        """Request probes if there are several hosts and their delays are unknown or out of date."""
        now_ms = observed.now_ms
        hosts = frozenset(executor.host for executor in observed.executors)
        if self.probes == 0 or len(hosts) < 2 or memory.probing or now_ms is None:
            return memory, ()
        fresh = memory.probed_ms is not None and (
            now_ms - memory.probed_ms < 1000 * self.probe_every_s
        )
        if fresh and hosts <= memory.probed_hosts:
            return memory, ()
        pairs = probe_pairs(tuple(sorted(hosts)), self.probes, seed=self.seed + memory.plans)
        known = {pair: ms for pair, ms in memory.probes.items() if hosts.issuperset(pair)}
        memory = replace(memory, probes=known, probing=True, probed_ms=now_ms, probed_hosts=hosts)
        return memory, (Probe(pairs),)

    def _planned(
        self, memory: ReplicationMemory, observed: Observed, solved: Solved
    ) -> tuple[ReplicationMemory, Wanted | None]:
        plan, alive = solved.plan, len(observed.executors)
        loads = operator_loads(observed)
        if isinstance(plan, Infeasible) or loads is None:
            why = plan.reason if isinstance(plan, Infeasible) else "tasks are on the way"
            return memory, self._hold(observed, f"; no deployment is allowed: {why}")
        unplanned = [load.name for load in loads if load.name not in plan.deployment]
        if unplanned:
            late = join_names(unplanned)
            deferred = f"; {late} started while a plan was worked out and is left to the next"
            return memory, self._hold(observed, deferred)
        memory = replace(memory, deployment=plan.deployment, known=observed.alive)
        number = executors_for(plan.deployment, alive)
        number = min(max(number, observed.bounds.least, 1), observed.bounds.most)
        figures = _figures(plan, solved)
        changes = _changes(loads, plan.deployment)
        unmet = "" if solved.unmet is None else f"; as fast as can be, for {solved.unmet}"
        was = solved.stay.response_ms
        before_text = "saturated" if was is None else f"{was:.0f} ms"
        gain = f"response {before_text} to {plan.response_ms:.0f} ms, cost {solved.stay.cost:g} to "
        gain += f"{plan.cost:g}, downtime {plan.downtime_ms:.0f} ms{unmet}"
        slower = was is not None and plan.response_ms > _AS_FAST * was
        if solved.unmet is not None and slower and not solved.broken:
            reason = f"; no deployment is much faster than the current {was:.0f} ms{unmet}"
            return replace(memory, deployment=None), self._hold(observed, reason)
        if changes or number != alive:
            need: Any = "rebalance"
            if number != alive:
                need = "scale-out" if number > alive else "scale-in"
            figures["wanted"] = number
            what = "; ".join(changes) or "executors without replicas"
            return memory, Wanted(need, number, f"{what}: {gain}", figures=figures, firm=True)
        uneven = _uneven(loads, observed, self)
        if uneven is not None:
            return memory, Wanted("rebalance", alive, uneven, figures=figures, firm=True)
        reason = f"; the deployment is the best there is, {plan.response_ms:.0f} ms{unmet}"
        return replace(memory, deployment=None), self._hold(observed, reason)


def _without_departed(memory: ReplicationMemory, observed: Observed) -> ReplicationMemory:
    """Return the memory without queries, executors and hosts that no longer exist."""
    queries, executors = observed.queries.keys(), observed.alive
    hosts = {executor.host for executor in observed.executors}
    seen = memory.experience.seen
    if memory.broken.keys() <= queries and seen <= executors and memory.probed_hosts <= hosts:
        return memory
    return replace(
        memory,
        points={key: points for key, points in memory.points.items() if key[0] in queries},
        outside_ms={name: ms for name, ms in memory.outside_ms.items() if name in queries},
        broken={name: times for name, times in memory.broken.items() if name in queries},
        experience=memory.experience.of_those(queries, executors),
        probes={pair: ms for pair, ms in memory.probes.items() if hosts.issuperset(pair)},
        round_trips_ms={
            pair: ms for pair, ms in memory.round_trips_ms.items() if hosts.issuperset(pair)
        },
        probed_hosts=memory.probed_hosts & hosts,
    )


def _changes(loads: tuple[OperatorLoad, ...], after: Deployment) -> list[str]:
    return [
        f"{load.name} on {join_names(after[load.name])} (was {join_names(load.replicas)})"
        for load in loads
        if set(after[load.name]) != set(load.replicas)
    ]


def _uneven(
    loads: tuple[OperatorLoad, ...], observed: Observed, goal: ReplicationSettings
) -> str | None:
    """Return the replica or executor whose share is too large, if another spread would help."""
    slots = {executor.id: executor.slots for executor in observed.executors}
    busy, even = dict.fromkeys(slots, 0.0), dict.fromkeys(slots, 0.0)
    for load in loads:
        held = dict.fromkeys(load.replicas, 0.0)
        for task, each in load.tasks.items():
            held[observed.where(task)] += each.work / slots[observed.where(task)]
        works = [each.work for each in load.tasks.values()]
        own = [slots[executor] for executor in held]
        for executor, share in held.items():
            busy[executor] += share
            even[executor] += fullest_share(works, own, 0.0)
        fullest = max(held, key=lambda executor: held[executor])
        if held[fullest] > fullest_share(works, own, goal.tau) * _CLEARLY and len(works) > 1:
            times = held[fullest] * sum(own) / load.work
            return f"executor {fullest} holds {times:.2f} times the mean share of {load.name}"
    stateful = stateful_share(observed)
    for executor, share in busy.items():
        total, spread = share / stateful, even[executor] / stateful
        if total > goal.busiest and total > spread * _CLEARLY:
            return f"executor {executor} is {total:.2f} busy, {spread:.2f} in an even spread"
    return None


def _figures(plan: ReplicationPlan, solved: Solved) -> dict[str, Number]:
    figures: dict[str, Number] = {
        "objective": round(plan.objective, 6),
        "lower_bound": round(plan.lower_bound, 6),
        "response_ms": round(plan.response_ms, 1),
        "cost": round(plan.cost, 3),
        "downtime_ms": round(plan.downtime_ms, 1),
        "cost_now": round(solved.stay.cost, 3),
    }
    if solved.stay.response_ms is not None:
        figures["response_ms_now"] = round(solved.stay.response_ms, 1)
    return figures
