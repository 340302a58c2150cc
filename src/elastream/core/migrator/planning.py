"""Planning: which tasks move, from the truth of this moment.

What is to be planned is in :mod:`elastream.core.migrator.problem`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from elastream.core.application import Observed
from elastream.core.change import Change, Destination
from elastream.core.events import (
    Answered,
    BatchObserved,
    Event,
    ExecutorsChanged,
    Plan,
    Status,
    Tick,
)
from elastream.core.goal import Failure, MadePlanner, Purpose
from elastream.core.guards import crowded, with_doubt
from elastream.core.learning import LearningPlanner, chosen_planner
from elastream.core.migrator.ending import abandon_change, note_waiting, plan_again
from elastream.core.migrator.problem import step_problem
from elastream.core.next import BeginCopying, Rest
from elastream.core.policy import planner_named
from elastream.core.prediction import predict
from elastream.core.routes import Route, RouteOrder
from elastream.core.state import LoopState, Phase, Signal, Turn, note
from elastream.core.usage import SLACK
from elastream.model.batch import Spread
from elastream.model.checks import Number
from elastream.model.observation import Executor, TaskId
from elastream.model.plan import Infeasible, StepPlan
from elastream.model.words import pluralize


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning(Phase):
    """A plan was asked for."""

    change: Change
    ticket: int
    order: RouteOrder
    tasks: tuple[TaskId, ...]
    nodes: tuple[str, ...]

    def on(self, state: LoopState, event: Event) -> Turn:
        """Take the plan on where it still fits the truth; plan anew where an executor is gone."""
        match event:
            case Answered(ticket=self.ticket, result=Failure(why=why)):
                return abandon_change(state, self.change, f"a plan failed: {why}")
            case Answered(ticket=self.ticket, result=route):
                return self._planned(state, route)
            case ExecutorsChanged() if not set(self.nodes) <= state.alive:
                why = "an executor was lost while it was planned"
                return plan_again(state, self.change, why, ticket=self.ticket)
            case BatchObserved(batch=batch):
                return note_waiting(state, "a plan", batch.query)
            case Tick() | Status() if self.is_overdue(state):
                why = f"no plan in {self.waited_s(state):.0f} s"
                return abandon_change(state, self.change, why, ticket=self.ticket)
            case _:
                return state, (), None

    def _planned(self, state: LoopState, route: Route) -> Turn:
        if route.problem is not None:
            return replace(self, order=replace(self.order, problem=route.problem))._planned(
                state, replace(route, problem=None)
            )
        change, plan = self.change, route.outcome
        if isinstance(plan, Infeasible):
            return abandon_change(state, change, f"no plan: {plan.reason}")
        if state.policy.advise_only:
            return _advised(
                state, change, f"; {self._moves(state, plan, route)}", self._figures(plan, route)
            )
        if not self._still_true(state):
            why = "executors or tasks changed places while it was planned"
            return plan_again(state, change, why)
        goal = {
            task: self.nodes[node]
            for task, node in zip(self.tasks, plan.assignment.nodes_of_tasks, strict=True)
        }
        if (crowd := crowded(state, goal)) is not None:
            return abandon_change(state, change, crowd)
        order = [self.tasks[number] for step in route.steps for number in step]
        leaving = self._leaving(state, goal)
        if change.kind == "scale-out" and leaving:
            change = replace(change, executors=len(self.nodes) - len(leaving))
            state = with_doubt(state, change)
        elif change.kind == "rebalance" and change.purpose is not None and not plan.moves:
            state = with_doubt(state, change)
        target = Destination.of(goal, order, leaving)
        log = note(
            state, "plan", self._moves(state, plan, route), figures=self._figures(plan, route)
        )
        stays = {*self.nodes} - {*target.leaving}
        change = replace(change, prediction=predict(state.observed, goal, stays, change.calm))
        return state, (log,), BeginCopying(change, target)

    def _still_true(self, state: LoopState) -> bool:
        """Whether the executors are there and every task that has one is where it was."""
        nodes, alive = self.nodes, state.alive
        where = {task: state.observed.where(task) for task, _ in state.observed.tasks()}
        current = self.order.problem.current.nodes_of_tasks
        return set(nodes) <= alive and all(
            task in where and (where[task] == nodes[node] or where[task] not in alive)
            for task, node in zip(self.tasks, current, strict=True)
        )

    def _leaving(self, state: LoopState, goal: Mapping[TaskId, str]) -> tuple[str, ...]:
        """Return who leaves: of the executors the plan leaves idle the youngest.

        In a scale-in so many as are too many; in a scale-out for a purpose all that came for it.
        """
        change, used = self.change, set(goal.values())
        idle = [node for node in reversed(self.nodes) if node not in used]
        stay = change.executors
        if change.kind == "scale-out" and change.purpose is not None:
            stay = max(change.before, state.observed.bounds.least)
        elif change.kind != "scale-in":
            return ()
        return tuple(idle[: max(0, len(self.nodes) - stay)])

    def _moves(self, state: LoopState, plan: StepPlan, route: Route) -> str:
        total = len(self.tasks)
        steps = pluralize(len(route.steps), "mini-migration")
        moves = f"{len(plan.moves)} of {pluralize(total, 'task')} move, in {steps}"
        reached = (*self._purpose(plan), *self._memory(state, plan))
        return "; ".join((moves, *reached, *self._idle(plan), *route.notes))

    def _idle(self, plan: StepPlan) -> tuple[str, ...]:
        """Say where executors get no state, and why."""
        used = len(set(plan.assignment.nodes_of_tasks))
        idle = self.order.problem.target.nodes - used
        if idle <= 0:
            return ()
        total = len(self.tasks)
        why = f"there are {total} tasks" if total <= used else "the others suffice"
        return (f"{pluralize(idle, 'executor gets', 'executors get')} no state: {why}",)

    def _purpose(self, plan: StepPlan) -> tuple[str, ...]:
        """Say whether the plan reaches what the change is for."""
        purpose = self.change.purpose
        if purpose is None:
            return ()
        busiest = self._busiest(plan, purpose)
        if busiest <= purpose.busiest * (1 + SLACK):
            return (f"reaches {purpose}",)
        least = self._longest((), purpose) + self._outside(purpose)
        why = "the executors are too few"
        if busiest <= least * (1 + SLACK):
            why = "the heaviest tasks alone make that much"
        elif least > purpose.busiest:
            why = f"the heaviest tasks alone make {least:.2f}"
        return (f"does not reach {purpose}, but {busiest:.2f}: {why}",)

    def _memory(self, state: LoopState, plan: StepPlan) -> tuple[str, ...]:
        """Say whether the plan keeps the limits of memory, where there are any."""
        problem, stores = self.order.problem, state.store_memory
        limits: list[tuple[str, float, list[float]]] = []
        if problem.memory:
            limits.append(("state", min(problem.memory), list(map(float, problem.state))))
        if stores is not None:
            loads = dict(state.observed.tasks())
            used = [float(loads[task].store_memory_bytes) for task in self.tasks]
            limits.append(("memory of state stores", stores.most, used))
        said = []
        for name, most, sizes in limits:
            held = dict.fromkeys(plan.assignment.nodes_of_tasks, 0.0)
            for node, size in zip(plan.assignment.nodes_of_tasks, sizes, strict=True):
                held[node] += size
            largest, purpose = max(held.values()), f"{name} <= {most / 1e6:,.0f} MB an executor"
            missed = f"does not reach {purpose}, but {largest / 1e6:,.0f} MB"
            said.append(f"reaches {purpose}" if largest <= most else missed)
        return tuple(said)

    def _longest(self, lengths: Sequence[Number], purpose: Purpose) -> float:
        """Return how long the busiest query takes whose stages have these lengths, or none.

        No stage takes less than its heaviest task.
        """
        problem = self.order.problem
        stage_of = problem.stages or (0,) * len(problem.work)
        queries = problem.queries or (0,) * (max(stage_of) + 1)
        longest = [*map(float, lengths)] or [0.0] * len(queries)
        for stage, work in zip(stage_of, problem.work, strict=True):
            longest[stage] = max(longest[stage], work * purpose.slots)
        total = [0.0] * (max(queries) + 1)
        for query, length in zip(queries, longest, strict=True):
            total[query] += length
        return max(total)

    def _busiest(self, plan: StepPlan, purpose: Purpose) -> float:
        spread = Spread.of(self.order.problem, plan.assignment.nodes_of_tasks)
        busiest = max(spread.busiest, self._longest(spread.stages, purpose))
        return busiest + self._outside(purpose)

    def _outside(self, purpose: Purpose) -> float:
        return purpose.outside / self.order.problem.target.nodes

    def _figures(self, plan: StepPlan, route: Route) -> dict[str, Number]:
        copies, purpose = self.order.problem.copies, self.change.purpose
        reached: dict[str, Number] = {}
        if purpose is not None:
            busiest = self._busiest(plan, purpose)
            reached = {
                "purpose_busiest": round(purpose.busiest, 4),
                "plan_busiest": round(busiest, 4),
                "reaches_purpose": int(busiest <= purpose.busiest * (1 + SLACK)),
            }
        return {
            **reached,
            "tasks_to_move": len(plan.moves),
            "tasks_with_copies": sum((move.task, move.target) in copies for move in plan.moves),
            "state_bytes_to_move": plan.cost,
            "state_bytes_lower_bound": plan.lower_bound,
            "mini_migrations": len(route.steps),
            "tau": round(self.order.problem.target.tau, 4),
            "limit": round(plan.batch_limit, 4),
            "max_load": round(plan.batch, 4),
        }


def begin_planning(state: LoopState, change: Change) -> Turn:
    """Ask for a plan; where there is nothing to plan, go on."""
    observed = state.observed
    if change.placement is not None:
        target = _by_hand(observed, change.placement)
        if not target.goal.keys() & change.placement.keys():
            return abandon_change(state, change, "its tasks have left with their queries")
        prediction = predict(observed, target.goal, observed.alive, change.calm)
        change = replace(change, prediction=prediction)
        return state, (), BeginCopying(change, target)
    tasks = tuple(task for task, _ in observed.tasks())
    nodes = _in_order(state.executors)
    wanted = change.executors if state.policy.advise_only else min(change.executors, len(nodes))
    if wanted == 0 and not observed.idle:
        return abandon_change(state, change, "there is work to do again")
    if not tasks or not nodes or wanted == 0:
        if state.policy.advise_only:
            return _advised(state, change, "", {})
        surplus = nodes[::-1][: max(0, len(nodes) - change.executors)]
        return state, (), BeginCopying(change, Destination.of({}, (), surplus))
    order = _order(state, change, tasks, nodes, wanted)
    why = _why_single_step(order)
    if why is not None and why != state.said_single_step:
        order = replace(order, notes=(*order.notes, why))
    state, ticket = replace(state, said_single_step=why).ticketed()
    planning = Planning(
        change=change, ticket=ticket, since_ms=state.now_ms, order=order, tasks=tasks, nodes=nodes
    )
    return replace(state, phase=planning), (Plan(ticket, order, tasks, nodes),), None


def _in_order(executors: Sequence[Executor]) -> tuple[str, ...]:
    """Return the executors, those of the smallest hosts last, which planners leave empty first.

    A host costs money as long as one executor is on it. Else the oldest come first.
    """
    sizes = Counter(executor.host for executor in executors)
    hosts = {host: number for number, host in enumerate(sizes)}
    ranked = sorted(executors, key=lambda each: (-sizes[each.host], hosts[each.host]))
    return tuple(executor.id for executor in ranked)


def _advised(state: LoopState, change: Change, moves: str, figures: Mapping[str, Number]) -> Turn:
    """Log what would be done, and rest."""
    would = f"would {change.kind} from {change.before} to {change.executors} executors"
    log = note(state, "advise", f"{would}: {change.reason}{moves}", figures=figures)
    memory = state.policy.goal.after_change(state.memory, state.observed, done=True)
    state = replace(state, signal=Signal(), changed_ms=state.now_ms, memory=memory)
    return state, (log,), Rest()


def _order(
    state: LoopState, change: Change, tasks: tuple[TaskId, ...], nodes: tuple[str, ...], wanted: int
) -> RouteOrder:
    movement = state.policy.movement
    planner, notes = _planner(state, tasks, nodes, wanted)
    problem = step_problem(state, change, tasks, nodes, wanted)
    most_tasks, most_bytes = movement.moves_per_batch, movement.bytes_per_batch
    return RouteOrder(problem, planner, most_tasks, most_bytes, notes, widen=True)


def _planner(
    state: LoopState, tasks: tuple[TaskId, ...], nodes: tuple[str, ...], wanted: int
) -> tuple[MadePlanner, tuple[str, ...]]:
    """Return the goal's planner or the policy's; a goal numbers executors in their order."""
    policy, known = state.policy, {each.id: each for each in state.executors}
    in_order = replace(state.observed, executors=tuple(known[node] for node in nodes))
    made = policy.goal.planner(state.memory, in_order, wanted)
    if made is not None:
        return made, ()
    planner = policy.loaded_planner
    if not isinstance(planner, LearningPlanner):
        return planner, ()
    ahead, why = chosen_planner(state.learning, tasks, planner.name, planner.until_learnt)
    if ahead is not None:
        return ahead, ()
    until_learnt = planner_named(planner.until_learnt)
    assert not isinstance(until_learnt, LearningPlanner)  # noqa: S101 - it would plan nothing
    return until_learnt, (why or "",)


def _why_single_step(order: RouteOrder) -> str | None:
    """Return why a planner that was made from values cannot use them here, for the log."""
    if not order.problem.consecutive:
        return None
    ask = getattr(order.planner, "why_single_step", None)
    why = None if ask is None else ask(order.problem)
    return None if why is None else f"{order.planner.name} {why}: single-step"


def _by_hand(observed: Observed, placement: Mapping[TaskId, str]) -> Destination:
    """Return where a placement asked for leads; tasks whose query has left meanwhile are not in."""
    where = {task: observed.where(task) for task, _ in observed.tasks()}
    known = {task: node for task, node in placement.items() if task in where}
    moving = [task for task, node in known.items() if where[task] != node]
    return Destination.of(where | known, moving)
