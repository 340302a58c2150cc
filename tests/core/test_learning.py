from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from tests.core.builders import batch, executors, task
from tests.core.scenes import POLICY, acts, after, attached, kinds, reasons

from elastream.core.events import (
    Answered,
    BatchObserved,
    Cancel,
    DetachRequested,
    Instruction,
    Learn,
    Plan,
    ScaleRequested,
    Status,
)
from elastream.core.goal import Failure
from elastream.core.learning import Learning, Learnt, Lesson, Size, chosen_planner
from elastream.core.routes import route
from elastream.core.state import LoopState
from elastream.core.step import start_loop, step
from elastream.foresight.live_planners import SINGLE_STEP
from elastream.goals.by_hand import ByHand
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan, step_plan
from elastream.placement.live_planners import FREE_STEP
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

TASKS = tuple(task(j) for j in range(4))
LOOKING_AHEAD = replace(POLICY, planner="transition", goal=ByHand())


@dataclass(frozen=True)
class Made:
    """A planner that a lesson came to."""

    name: str = "made"
    contiguous: bool = True

    def __call__(self, problem: StepProblem, /) -> StepPlan:
        return step_plan(problem, problem.current.nodes_of_tasks)


def sizes(*numbers: int) -> tuple[Size, ...]:
    return tuple(Size(1000 * at, number) for at, number in enumerate(numbers))


# What is kept of the past


def test_every_change_of_size_is_kept_with_its_time() -> None:
    learning = Learning().resized(1000, 2).resized(2000, 3).resized(3000, 2)
    assert learning.sizes == (Size(1000, 2), Size(2000, 3), Size(3000, 2))


@pytest.mark.parametrize("number", [2, 0])
def test_the_same_size_again_and_no_executor_at_all_are_no_changes(number: int) -> None:
    learning = Learning(sizes=sizes(3, 2))
    assert learning.resized(9000, number) == learning


def test_the_oldest_sizes_are_forgotten() -> None:
    learning = Learning()
    for number in range(2100):
        learning = learning.resized(number, 1 + number % 2)
    assert len(learning.sizes) == 2000
    assert learning.sizes[-1] == Size(2099, 2)


# When there is something to learn


@pytest.mark.parametrize(
    ("learning", "due"),
    [
        (Learning(sizes=sizes(1, 2, 1, 2)), False),
        (Learning(sizes=sizes(1, 2, 1, 2, 1)), True),
        (Learning(sizes=sizes(1, 2, 1, 2, 1), asked=7), False),
        (Learning(sizes=sizes(1, 2, 1, 2, 1), tasks=TASKS, changes=4), False),
        (Learning(sizes=sizes(1, 2, 1, 2, 1), tasks=TASKS[:3], changes=4), True),
        (Learning(sizes=sizes(*[1, 2] * 4), tasks=TASKS, changes=4), False),
        (Learning(sizes=sizes(*[1, 2] * 4, 1), tasks=TASKS, changes=4), True),
        (Learning(sizes=sizes(*[1, 2] * 20), tasks=TASKS, changes=32), False),
        (Learning(sizes=sizes(*[1, 2] * 20, 1), tasks=TASKS, changes=32), True),
    ],
    ids=[
        "too few changes",
        "enough changes",
        "a lesson is under way",
        "nothing new",
        "other tasks",
        "not twice as many changes",
        "twice as many changes",
        "seven new changes of many",
        "eight new changes of many",
    ],
)
def test_a_lesson_is_due_when_there_is_something_new(learning: Learning, due: bool) -> None:
    assert learning.due(TASKS) is due


def test_without_tasks_there_is_nothing_to_learn() -> None:
    assert not Learning(sizes=sizes(1, 2, 1, 2, 1)).due(())


# Which planner is used


@pytest.mark.parametrize(
    ("learning", "why"),
    [
        (Learning(), "transition knows too little, 0 of 4 changes of size seen: single-step"),
        (
            Learning(sizes=sizes(1, 2, 3)),
            "transition knows too little, 2 of 4 changes of size seen: single-step",
        ),
        (
            Learning(sizes=sizes(1, 2, 1, 2, 1)),
            "transition has not worked out its values yet: single-step",
        ),
        (
            Learning(sizes=sizes(1, 2, 1, 2, 1), learnt=Learnt(None, "9 % would move, not 8 %")),
            "transition does not pay, 9 % would move, not 8 %: single-step",
        ),
        (
            Learning(sizes=sizes(1, 2, 1, 2, 1), tasks=TASKS[:2], learnt=Learnt(Made(), "good")),
            "transition has values for other tasks than these: single-step",
        ),
    ],
    ids=["nothing seen", "too little seen", "not learnt", "does not pay", "other tasks"],
)
def test_why_the_planner_cannot_look_ahead_is_reported(learning: Learning, why: str) -> None:
    assert chosen_planner(learning, TASKS, "transition", "single-step") == (None, why)


def test_the_planner_of_the_lesson_is_used_where_it_pays() -> None:
    learning = Learning(sizes=sizes(1, 2, 1, 2, 1), tasks=TASKS, learnt=Learnt(Made(), "good"))
    assert chosen_planner(learning, TASKS, "transition", "single-step") == (Made(), None)


# In the loop


PAST = Learning(sizes=sizes(1, 2, 1, 2, 1, 2))


def after_batches(learning: Learning, number: int = 1) -> tuple[LoopState, tuple[Instruction, ...]]:
    """A loop with this past after this many batches."""
    state = replace(attached("ab", policy=LOOKING_AHEAD), learning=learning)
    return after(state, *(BatchObserved(batch(each, "aabb")) for each in range(number)))


def lessons(reports: tuple[Instruction, ...]) -> list[Learn]:
    return [each for each in reports if isinstance(each, Learn)]


def test_a_lesson_is_asked_for_once_with_all_that_it_needs() -> None:
    state, report = after_batches(PAST, 3)
    assert lessons(report) == [
        Learn(1, Lesson(TASKS, (0.1,) * 4, (1000,) * 4, POLICY.tau, (1, 2, 1, 2, 1, 2)))
    ]
    assert (state.learning.asked, state.learning.tasks, state.learning.changes) == (1, TASKS, 5)


def test_free_ahead_learns_without_intervals_and_takes_free_steps_until_then() -> None:
    free = replace(LOOKING_AHEAD, planner="free-ahead")
    state = replace(attached("ab", policy=free), learning=PAST)
    state, report = step(state, BatchObserved(batch(0, "aabb")))
    (asked,) = lessons(report)
    assert not asked.lesson.contiguous
    state, report = after(replace(state, learning=Learning()), ScaleRequested(1))
    (plan,) = [each for each in report if isinstance(each, Plan)]
    assert plan.order.planner == FREE_STEP
    assert plan.order.notes == (
        "free-ahead knows too little, 0 of 4 changes of size seen: free-step",
    )


def test_no_lesson_is_asked_for_while_a_change_is_under_way() -> None:
    state = replace(attached("ab", policy=LOOKING_AHEAD), learning=PAST)
    state, _ = step(state, ScaleRequested(3))
    _, report = step(state, BatchObserved(batch(0, "aabb")))
    assert lessons(report) == []


def test_tasks_that_were_not_measured_are_no_part_of_a_lesson() -> None:
    state = replace(attached("ab", policy=LOOKING_AHEAD), learning=PAST)
    _, report = step(state, BatchObserved(batch(0, "aabb", interval_ms=None)))
    assert lessons(report) == []


def planned(state: LoopState) -> tuple[Plan, list[str]]:
    """What a change to as many executors as there are is planned with, and what the log says."""
    state, report = step(state, ScaleRequested(2))
    (plan,) = (each for each in report if isinstance(each, Plan))
    _, report = step(state, Answered(plan.ticket, route(plan.order)))
    return plan, reasons(report)


def test_what_was_learnt_is_reported_and_used() -> None:
    state, _ = after_batches(PAST)
    learnt = Learnt(Made(), "5.0 % instead of 7.5 %", ahead_percent=5.0, single_percent=7.5)
    state, report = step(state, Answered(1, learnt))
    assert (kinds(report), reasons(report)) == (["learn"], ["5.0 % instead of 7.5 %"])
    assert report[0].decision.figures == {"ahead_percent": 5.0, "single_percent": 7.5}  # type: ignore[union-attr]
    assert planned(state)[0].order.planner == Made()


def test_until_something_is_learnt_changes_are_single_steps_and_the_log_says_why() -> None:
    state, _ = after_batches(PAST)
    plan, report = planned(state)
    assert plan.order.planner == SINGLE_STEP
    assert "transition has not worked out its values yet: single-step" in report[0]


def test_a_lesson_that_failed_is_reported_and_not_asked_for_again_at_once() -> None:
    state, _ = after_batches(PAST)
    state, report = step(state, Answered(1, Failure("out of memory")))
    assert (kinds(report), reasons(report)) == (["learn"], ["nothing learnt: out of memory"])
    _, report = step(state, BatchObserved(batch(5, "aabb")))
    assert lessons(report) == []


def test_other_tasks_than_those_of_the_lesson_need_a_new_one() -> None:
    state, _ = after_batches(PAST)
    state, _ = step(state, Answered(1, Learnt(Made(), "good")))
    state, report = step(state, BatchObserved(batch(5, "aabba")))
    assert [lesson.lesson.tasks for lesson in lessons(report)] == [(*TASKS, task(4))]
    assert planned(state)[0].order.planner == SINGLE_STEP


def test_the_loop_keeps_its_own_past() -> None:
    state, _ = start_loop(LOOKING_AHEAD, executors("a", "b"), now_ms=5)
    assert state.learning.sizes == (Size(5, 2),)
    state, _ = after(state, ScaleRequested(3), Answered(1, executors("a", "b", "c")), Status(900))
    assert state.learning.sizes == (Size(5, 2), Size(5, 3))


def test_the_past_of_an_earlier_loop_is_gone_on_with() -> None:
    state, _ = start_loop(LOOKING_AHEAD, executors("a"), now_ms=9000, learning=PAST)
    assert state.learning.sizes == (*PAST.sizes, Size(9000, 1))


def test_a_lesson_under_way_is_cancelled_by_detaching() -> None:
    state, _ = after_batches(PAST)
    _, report = step(state, DetachRequested())
    assert acts(report) == [Cancel(1)]


def test_a_loop_that_looks_ahead_scales_as_any_other() -> None:
    def rows_per_s(second: float) -> float:
        return 500 if second % 120 < 60 else 2600

    cluster = SimulatedCluster(even_workload(12, rows_per_s), ClusterSettings(executors=2))
    policy = replace(POLICY, planner="transition", max_executors=6)
    with simulated(cluster, policy) as controller:
        cluster.advance(600)
        assert len(controller.state.learning.sizes) > 4
