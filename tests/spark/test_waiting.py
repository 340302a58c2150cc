from __future__ import annotations

from elastream.spark.internals.event_tap import RunningTask, TaskTimes
from elastream.spark.observe.waiting import SlotHistory, SlotUse


def use(stage: int, executor: str, submitted: int, launched: int, finished: int) -> SlotUse:
    return SlotUse(stage, executor, TaskTimes(submitted, launched, finished))


def waited(own: list[SlotUse], others: list[SlotUse], slots: dict[str, int] | None = None) -> float:
    history = SlotHistory()
    for each in own:
        history.add("own", each)
    for each in others:
        history.add("other", each)
    return history.waited_ms("own", own, slots or {})


def test_tasks_that_wait_for_each_other_do_not_wait_for_others() -> None:
    own = [use(1, "a", 0, 0, 100), use(1, "a", 0, 100, 200), use(1, "a", 0, 205, 300)]
    assert waited(own, []) == 0


def test_a_stage_waits_while_the_tasks_of_another_query_hold_its_slot() -> None:
    own = [use(1, "a", 50, 200, 300), use(1, "a", 50, 300, 400)]
    assert waited(own, [use(7, "a", 0, 0, 120), use(7, "a", 0, 120, 200)]) == 150


def test_what_others_do_after_the_last_launch_does_not_count() -> None:
    own = [use(1, "a", 0, 0, 100)]
    assert waited(own, [use(7, "a", 0, 50, 400)], {"a": 2}) == 0


def test_one_slot_of_two_that_is_held_delays_by_half() -> None:
    own = [use(1, "a", 0, t, t + 100) for t in (0, 100, 200)]
    assert waited(own, [use(7, "a", 0, 0, 200)], {"a": 2}) == 100


def test_a_wait_counts_as_far_as_the_stage_ended_later_for_it() -> None:
    own = [use(1, "a", 0, 200, 300), use(1, "b", 0, 0, 250)]
    assert waited(own, [use(7, "a", 0, 0, 200)]) == 50
    assert waited([*own, use(1, "b", 0, 250, 400)], [use(7, "a", 0, 0, 200)]) == 0


def test_stages_one_after_the_other_wait_each_and_those_at_once_wait_once() -> None:
    others = [use(7, "a", 0, 0, 100), use(7, "a", 0, 200, 250)]
    first, second = use(1, "a", 0, 100, 200), use(2, "a", 200, 250, 300)
    assert waited([first, second], others) == 150
    assert waited([first, use(2, "a", 0, 250, 300)], others) == 150


def test_a_task_that_still_runs_holds_its_slot() -> None:
    history = SlotHistory()
    own = [use(1, "a", 0, 0, 100), use(1, "a", 0, 100, 200)]
    history.set_running(
        [(None, RunningTask(3, 9, "a", 0, 500)), ("own", RunningTask(4, 1, "a", 0, 9))]
    )
    assert history.waited_ms("own", own, {"a": 2}) == 50


def test_executors_that_are_gone_are_forgotten() -> None:
    history = SlotHistory()
    for executor in "ab":
        history.add("other", use(7, executor, 0, 0, 100))
    history.keep({"b", "c"})
    assert list(history._held) == ["b"]


def test_what_finished_long_ago_is_forgotten() -> None:
    history = SlotHistory()
    history.add("other", use(7, "a", 0, 0, 100))
    history.forget_before(101)
    assert history.waited_ms("own", [use(1, "a", 0, 100, 200)], {}) == 0
    assert not history._held
