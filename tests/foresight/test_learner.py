from __future__ import annotations

import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from elastream.core.learning import Lesson
from elastream.core.ports import Ticket
from elastream.foresight.ahead.planner import FreeAheadPlanner
from elastream.foresight.learner import learn
from elastream.foresight.lessons import Worked, learnt_of, work_out
from elastream.foresight.mtm.planner import TransitionPlanner
from elastream.foresight.values_file import read_values
from elastream.model.assignment import Assignment
from elastream.model.errors import ElastreamError, GivenUpError
from elastream.model.migration import StepProblem, Target
from elastream.model.observation import TaskId
from elastream.model.plan import Infeasible, StepPlan


def lesson(sizes: list[int], *, tasks: int = 12, tau: float = 0.4) -> Lesson:
    return Lesson(
        tasks=tuple(TaskId("q", 0, partition) for partition in range(tasks)),
        work=tuple(1.0 + partition % 3 for partition in range(tasks)),
        state=tuple(1000 * (1 + partition % 4) for partition in range(tasks)),
        tau=tau,
        sizes=tuple(sizes),
    )


DAYS = lesson([2, 4, 3, 2, 4, 3, 2, 4, 3, 2])


def test_sizes_that_repeat_are_worth_looking_ahead() -> None:
    worked = work_out(DAYS)
    assert worked.values is not None
    assert worked.values.complete
    assert worked.ahead_percent is not None
    assert worked.single_percent is not None
    assert worked.pays == (worked.ahead_percent <= worked.single_percent)
    assert "from 9 changes of size, all" in worked.reason


def test_what_moves_more_is_left_alone() -> None:
    values = work_out(DAYS).values
    more = Worked(values, "5.00 % against 4.00 %", None, 5.0, 4.0)
    assert not more.pays
    assert learnt_of(more).planner is None
    assert learnt_of(Worked(None, "none")).planner is None
    assert isinstance(learnt_of(Worked(values, "same", None, 4.0, 4.0)).planner, TransitionPlanner)


def test_the_operators_of_real_time_queries_are_one_stage() -> None:
    tasks = tuple(TaskId("q", number % 2, number // 2) for number in range(12))
    assert work_out(replace(DAYS, tasks=tasks)).values is None
    assert work_out(replace(DAYS, tasks=tasks, realtime=frozenset({"q"}))).values is not None


def test_tasks_without_work_are_taken_to_be_alike() -> None:
    quiet = lesson([2, 3, 2, 3, 2])
    quiet = Lesson(quiet.tasks, (0.0,) * 12, quiet.state, quiet.tau, quiet.sizes)
    assert work_out(quiet).values is not None


def test_another_process_finds_what_this_one_finds(tmp_path: Path) -> None:
    learnt = learn(DAYS, tmp_path, ticket=Ticket())
    here = work_out(DAYS)
    assert (learnt.ahead_percent, learnt.single_percent) == (
        here.ahead_percent, here.single_percent,
    )  # fmt: skip
    assert learnt.reason == here.reason
    assert here.values is not None
    kept = read_values(tmp_path / "values.parquet").members
    cuts = [kept.cut(number) for number in range(len(kept))]
    assert cuts == [here.values.members.cut(number) for number in range(len(kept))]
    assert [path.name for path in tmp_path.iterdir()] == ["values.parquet"]
    if here.pays:
        assert learnt.planner is not None
        problem = StepProblem(
            DAYS.work, DAYS.state,
            Assignment.from_intervals(list(pairwise((0, 6, 12, 12, 12))), tasks=12),
            Target(4, DAYS.tau),
        )  # fmt: skip
        planned = learnt.planner(problem)
        assert not isinstance(planned, Infeasible)
        assert planned == TransitionPlanner(here.values)(problem)


def test_a_lesson_that_was_given_up_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*args: object, **options: object) -> subprocess.Popen[bytes]:
        process = popen(*args, **options)  # type: ignore[call-overload]
        started.append(process)
        ticket.cancel()
        return process  # type: ignore[no-any-return]

    ticket = Ticket()
    monkeypatch.setattr(subprocess, "Popen", noted)
    with pytest.raises(GivenUpError):
        learn(DAYS, None, ticket=ticket)
    (process,) = started
    assert process.poll() is not None


def test_a_lesson_that_fails_is_reported_in_a_line() -> None:
    empty = Lesson((), (), (), 0.4, (2, 3))
    with pytest.raises(ElastreamError, match="the lesson ended with code 1: ") as raised:
        learn(empty, None, ticket=Ticket())
    assert "\n" not in str(raised.value)


def test_free_ahead_learns_a_chain_and_needs_no_values(tmp_path: Path) -> None:
    free = replace(DAYS, contiguous=False)
    here = work_out(free)
    learnt = learn(free, tmp_path, ticket=Ticket())
    assert here.values is None
    assert here.chain is not None
    assert "from 9 changes of size: " in learnt.reason
    assert (learnt.ahead_percent, learnt.single_percent) == (
        here.ahead_percent, here.single_percent,
    )  # fmt: skip
    assert isinstance(learnt.planner, FreeAheadPlanner) == here.pays
    assert list(tmp_path.iterdir()) == []
    assert learnt_of(Worked(None, "more", here.chain, 5.0, 4.0)).planner is None
    assert isinstance(
        learnt_of(Worked(None, "same", here.chain, 4.0, 4.0)).planner, FreeAheadPlanner
    )


def two_operators(lesson: Lesson) -> Lesson:
    tasks = tuple(TaskId("q", partition % 2, partition // 2) for partition in range(12))
    return replace(lesson, tasks=tuple(sorted(tasks)))


def test_there_are_no_values_of_several_operators() -> None:
    worked = work_out(two_operators(DAYS))
    assert (worked.values, worked.pays) == (None, False)
    assert worked.reason == "values are for one operator, and there are 2"


def test_the_past_of_several_operators_is_replayed_by_stage() -> None:
    worked = work_out(replace(two_operators(DAYS), contiguous=False))
    assert worked.chain is not None
    assert worked.ahead_percent is not None
    planner = learnt_of(replace(worked, ahead_percent=0.0)).planner
    assert isinstance(planner, FreeAheadPlanner)
    problem = StepProblem.of_stages(
        DAYS.work, DAYS.state, [0] * 6 + [1] * 6, 3, 0.4, stages=[0] * 6 + [1] * 6
    )
    plan = planner(problem)
    assert isinstance(plan, StepPlan)
    assert plan.status != "unbalanced"
