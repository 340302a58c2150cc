from __future__ import annotations

from elastream.spark.internals.event_tap import RunningTask, TaskEvent, TaskTimes
from elastream.spark.observe.foreign_work import ForeignWork


def ended(number: int, launched: int, finished: int) -> tuple[TaskEvent, int]:
    times = TaskTimes(launched, launched, finished)
    return TaskEvent(number, 4, 0, "a", True, times, ()), finished - launched


def running(number: int, launched: int, now: int) -> RunningTask:
    return RunningTask(number, 4, "a", launched, now)


def test_a_long_task_is_booked_while_it_runs_and_no_second_time_when_it_ends() -> None:
    work = ForeignWork(since_ms=0)
    booked = []
    for second in range(1, 31):
        work.add([], [running(1, 0, 1000 * second)], 1000 * second)
        booked.append(work.take())
    work.add([ended(1, 0, 30_400)], [], 31_000)
    assert booked == [{"a": 1000.0}] * 30
    assert work.take() == {"a": 400.0}


def test_short_tasks_are_booked_when_they_end() -> None:
    work = ForeignWork(since_ms=0)
    work.add([ended(1, 0, 300), ended(2, 300, 500)], [], 1000)
    assert work.take() == {"a": 500.0}
    assert work.take() == {}


def test_a_task_that_was_booked_more_than_it_ran_takes_nothing_back() -> None:
    work = ForeignWork(since_ms=0)
    work.add([], [running(1, 0, 2000)], 2000)
    work.add([ended(1, 0, 1900)], [], 3000)
    assert work.take() == {"a": 2000.0}


def test_of_a_task_from_before_only_what_it_ran_lately_counts() -> None:
    work = ForeignWork(since_ms=100_000)
    work.add([], [], 150_000)
    work.add([ended(1, 0, 150_600)], [], 151_000)
    assert work.take() == {"a": 600.0}


def test_a_task_that_vanished_is_forgotten() -> None:
    work = ForeignWork(since_ms=0)
    work.add([], [running(1, 0, 2000)], 2000)
    work.add([], [], 3000)
    assert work.take() == {"a": 2000.0}
    assert not work._booked
