"""Several migrations, all known beforehand; the plan for them, and the check of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from elastream.foresight.mtm.problem import discount
from elastream.model.assignment import Assignment
from elastream.model.checks import Number, Numbers
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, Target, Within
from elastream.model.plan import Status, StepPlan
from elastream.placement.certificate import ROUNDING, Certificate, certify_step, differing


@dataclass(frozen=True, slots=True)
class SequenceProblem:
    """Several migrations, one after the other, all known beforehand (section 4.1 of paper 000)."""

    work: tuple[Number, ...]
    """Load of each task, the same at every migration."""
    state: tuple[Number, ...]
    """State size of each task, the same at every migration, in bytes."""
    current: Assignment
    """Where the tasks are before the first migration."""
    targets: tuple[Target, ...]
    """What each migration must reach, in order; at least one."""
    gamma: Number = 1
    """Weight of each further migration (section 4.2 of paper 000), from 0 to 1: the state moved by
    migration ``i``, from 0, counts ``gamma ** i``. A fraction is the decimal number that it prints
    as."""
    stages: tuple[int, ...] = ()
    """As in :class:`~elastream.model.migration.StepProblem`, as are the fields after it."""
    queries: tuple[int, ...] = ()
    slots: tuple[Number, ...] = ()
    """Of all nodes that any migration numbers."""
    memory: tuple[Number, ...] = ()
    """Of the same."""
    within: Within = "batch"

    @classmethod
    def of(
        cls,
        work: Numbers,
        state: Numbers,
        current: Assignment | Sequence[Sequence[int]],
        targets: Sequence[tuple[int, Number]],
        gamma: Number = 1,
    ) -> SequenceProblem:
        """Return the checked problem; each target is a pair (nodes, tau)."""
        step = StepProblem.of(work, state, current, nodes=1, tau=0)
        if not targets:
            raise ProblemError("targets", "is empty; give at least one migration")
        checked = tuple(Target.of(*pair, f"targets[{i}].") for i, pair in enumerate(targets))
        return cls(step.work, step.state, step.current, checked, discount("gamma", gamma, most=1))

    @classmethod
    def of_stages(
        cls,
        work: Numbers,
        state: Numbers,
        current: Sequence[int],
        targets: Sequence[tuple[int, Number]],
        gamma: Number = 1,
        *,
        stages: Sequence[int] = (),
        slots: Numbers = (),
        memory: Numbers = (),
        within: object = "batch",
    ) -> SequenceProblem:
        """Return the checked problem of one query with several stages, or of unequal nodes.

        ``slots`` and ``memory`` are of all nodes that any migration numbers.
        """
        plain = cls.of(work, state, Assignment.from_nodes(current), targets, gamma)
        nodes = plain.nodes_after(len(plain.targets) - 1)
        step = StepProblem.of_stages(
            work, state, current, nodes, 0, stages=stages, slots=slots, memory=memory, within=within
        )
        return replace(
            plain, stages=step.stages, slots=step.slots, memory=step.memory, within=step.within
        )

    @property
    def plain(self) -> bool:
        """Whether one limit on the work of a node is all there is: the papers' problem."""
        return self.step(0, self.current).plain

    def nodes_after(self, number: int) -> int:
        """Return how many nodes are numbered from a migration on."""
        return max(self.current.nodes, *(each.nodes for each in self.targets[: number + 1]))

    def step(self, number: int, current: Assignment) -> StepProblem:
        """Return the problem of one migration, from where the tasks are before it."""
        nodes = self.nodes_after(number)
        if current.nodes < nodes:
            current = Assignment(current.nodes_of_tasks, nodes)
        return StepProblem(
            self.work,
            self.state,
            current,
            self.targets[number],
            stages=self.stages,
            queries=self.queries,
            slots=self.slots[:nodes],
            memory=self.memory[:nodes],
            within=self.within,
        )


@dataclass(frozen=True, slots=True)
class SequencePlan:
    """The outcome of several migrations, one after the other."""

    status: Status
    """``optimal``: no plan for the same problem has a lower ``weighted_cost``; proven."""
    cost: Number
    """State moved in all steps together, in bytes; each step counts the same."""
    steps: tuple[StepPlan, ...]
    lower_bound: Number
    """No plan for the same problem has a ``weighted_cost`` below this."""
    weighted_cost: Number
    """What is minimised: the sum of ``gamma ** i`` times the cost of step ``i``, from 0, in bytes.
    Equal to ``cost`` where gamma is 1."""


def certify_sequence(problem: SequenceProblem, plan: SequencePlan) -> Certificate:
    """Check every step of ``plan`` from the assignment the previous step left, and both totals.

    Shares no code with the planner.
    """
    if len(plan.steps) != len(problem.targets):
        wrong = f"{len(plan.steps)} steps for {len(problem.targets)} migrations"
        return Certificate((wrong,), Fraction(0), Fraction(0))
    faults: list[str] = []
    cost = weighted = max_load = Fraction(0)
    weight = Fraction(1)
    current = problem.current
    for number, (target, step) in enumerate(zip(problem.targets, plan.steps, strict=True)):
        if problem.plain:
            before = StepProblem(problem.work, problem.state, current, target)
        else:
            before = problem.step(number, current)
        certificate = certify_step(before, step, contiguous=True)
        faults += [f"step {number}: {fault}" for fault in certificate.faults]
        cost += certificate.cost
        weighted += weight * certificate.cost
        weight *= Fraction(problem.gamma)
        max_load = max(max_load, certificate.max_load)
        current = step.assignment
    faults += differing("cost", plan.cost, cost)
    faults += differing("weighted_cost", plan.weighted_cost, weighted)
    if Fraction(plan.lower_bound) > weighted * (1 + ROUNDING):
        faults.append(f"lower bound {plan.lower_bound} is above the cost {float(weighted)}")
    if plan.status == "optimal" and plan.lower_bound != plan.weighted_cost:
        faults.append("called optimal with a lower bound below the cost")
    return Certificate(tuple(faults), cost, max_load)
