"""Combined: one goal says how many executors, another where tasks are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from elastream.core.application import GoalBounds, Observed
from elastream.core.goal import Goal, MadePlanner, Marks, Need, Question, Wanted
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.model.observation import BatchObservation, Executor


@dataclass(frozen=True, slots=True)
class CombinedMemory:
    """What each of the two remembers, and whose question is which."""

    how_many: Any
    where: Any
    asked: tuple[tuple[Question, bool], ...] = ()
    """Open questions, and whether they are of the first goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined(Goal):
    """``how_many`` decides on the number of executors, ``where`` places tasks on them."""

    how_many: Goal
    where: Goal

    def __post_init__(self) -> None:
        for name, goal in (("how_many", self.how_many), ("where", self.where)):
            if not isinstance(goal, Goal) or isinstance(goal, Combined):
                raise ProblemError(f"goal.{name}", f"{abbreviate(goal)} is not a single goal")

    @property
    def name(self) -> str:
        """What the log calls it."""
        return f"{self.how_many.name}, placed {self.where.name}"

    @property
    def marks(self) -> Marks | None:
        """Return those of the first: they are the marks of its utilisation."""
        return self.how_many.marks

    def check(self, bounds: GoalBounds) -> None:
        """Ask both."""
        self.how_many.check(bounds)
        self.where.check(bounds)

    def check_start(self, now_ms: int, executors: tuple[Executor, ...]) -> None:
        """Ask both."""
        self.how_many.check_start(now_ms, executors)
        self.where.check_start(now_ms, executors)

    def memory(self) -> CombinedMemory:
        """Remember what both do."""
        return CombinedMemory(self.how_many.memory(), self.where.memory())

    def recalled(self, past: Iterable[tuple[int, float]]) -> CombinedMemory:
        """Give the past to the first: the load of the past says how many, not where."""
        return CombinedMemory(self.how_many.recalled(past), self.where.memory())

    def after_batch(
        self,
        memory: CombinedMemory,
        observed: Observed,
        batch: BatchObservation,
        *,
        disturbed: bool,
    ) -> CombinedMemory:
        """Return what both remember."""
        return replace(
            memory,
            how_many=self.how_many.after_batch(
                memory.how_many, observed, batch, disturbed=disturbed
            ),
            where=self.where.after_batch(memory.where, observed, batch, disturbed=disturbed),
        )

    def wanted(
        self, memory: CombinedMemory, observed: Observed
    ) -> tuple[CombinedMemory, Wanted, tuple[Question, ...]]:
        """Want another number where the first does, else a rebalance where the second does."""
        first, number, asked = self.how_many.wanted(memory.how_many, observed)
        second, places, more = self.where.wanted(memory.where, observed)
        known = (*((each, True) for each in asked), *((each, False) for each in more))
        memory = CombinedMemory(first, second, (*memory.asked, *known))
        return memory, _chosen(number, places), (*asked, *more)

    def near_scale_out(self, memory: CombinedMemory, observed: Observed) -> bool:
        """Return what the first says: only it changes the number of executors."""
        return self.how_many.near_scale_out(memory.how_many, observed)

    def turning_points(self, memory: CombinedMemory, observed: Observed) -> tuple[str, ...]:
        """Return those of the first: only it changes the number of executors."""
        return self.how_many.turning_points(memory.how_many, observed)

    def after_answer(
        self, memory: CombinedMemory, observed: Observed, question: Question, answer: Any
    ) -> tuple[CombinedMemory, Wanted | None]:
        """Give the answer to the goal that has asked; each wants only its own kind of change."""
        is_first = next((mine for asked, mine in memory.asked if asked is question), True)
        left = tuple(entry for entry in memory.asked if entry[0] is not question)
        memory = replace(memory, asked=left)
        if is_first:
            kept, wanted = self.how_many.after_answer(memory.how_many, observed, question, answer)
            return replace(memory, how_many=kept), _unless(wanted, observed, "rebalance")
        kept, wanted = self.where.after_answer(memory.where, observed, question, answer)
        return replace(memory, where=kept), _unless(wanted, observed, "scale-out", "scale-in")

    def planner(
        self, memory: CombinedMemory, observed: Observed, executors: int
    ) -> MadePlanner | None:
        """Return the second's planner, else the first's."""
        return self.where.planner(memory.where, observed, executors) or self.how_many.planner(
            memory.how_many, observed, executors
        )

    def after_change(
        self, memory: CombinedMemory, observed: Observed, *, done: bool
    ) -> CombinedMemory:
        """Return what both remember."""
        return replace(
            memory,
            how_many=self.how_many.after_change(memory.how_many, observed, done=done),
            where=self.where.after_change(memory.where, observed, done=done),
        )

    def utilisation(self, observed: Observed) -> float | None:
        """Return it as the first sees it."""
        return self.how_many.utilisation(observed)


def _unless(wanted: Wanted | None, observed: Observed, *others: Need) -> Wanted | None:
    """Return what is wanted; a hold where that is the business of the other goal."""
    if wanted is None or wanted.need not in others:
        return wanted
    figures = {name: value for name, value in wanted.figures.items() if name != "wanted"}
    alive = len(observed.executors)
    return replace(wanted, need="hold", executors=alive, figures=figures, firm=False)


def _chosen(number: Wanted, places: Wanted) -> Wanted:
    if number.need in ("scale-out", "scale-in"):
        return number
    if places.need == "rebalance":
        return replace(places, utilisation=number.utilisation)
    figures = {name: value for name, value in number.figures.items() if name != "wanted"}
    reason = f"{number.reason}; {places.reason}"
    return replace(number, need="hold", reason=reason, figures=figures)
