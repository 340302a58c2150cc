"""Several migrations, all known beforehand, and the plan for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastream.foresight.mtm.problem import discount
from elastream.model.assignment import Assignment
from elastream.model.checks import Number, Numbers
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Status, StepPlan


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
