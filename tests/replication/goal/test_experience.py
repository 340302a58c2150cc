from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.replication.goal.scenes import QUERY, RUN

from elastream.core.application import Query
from elastream.core.load import BatchCost, QueryLoad, TaskLoad
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream.replication.goal.experience import Experience

MIB = 1 << 20


def batch(
    number: int,
    ran: Sequence[tuple[str, float]],
    *,
    rows: int = 100,
    duration_ms: float = 500.0,
    state_bytes: int = 8 * MIB,
) -> BatchObservation:
    """Task j ran for so long on this executor."""
    tasks = tuple(
        TaskObservation(TaskId(QUERY, 0, j), executor, run_ms, rows, rows, state_bytes)
        for j, (executor, run_ms) in enumerate(ran)
    )
    at_ms = 1000 * (number + 1)
    return BatchObservation(
        QUERY, RUN, number, duration_ms, rows * len(ran), None, at_ms, 1000.0, tasks
    )


def usual(tasks: int, work: float = 0.1) -> Query:
    """A query whose tasks run for 100 ms a second, and whose batches take 500."""
    loads = {
        TaskId(QUERY, 0, j): TaskLoad("a", work, 1.0, 1.0, measured=True) for j in range(tasks)
    }
    load = QueryLoad(tasks=loads, interval_ms=1000.0)
    recent = tuple(BatchCost(ms, 0.0, 0.0, 100.0, 100) for ms in (400.0, 500.0, 600.0))
    return Query(QUERY, RUN, load=load, recent=recent)


def after(
    *batches: BatchObservation, disturbed: bool = False, experience: Experience | None = None
) -> Experience:
    known = experience or Experience()
    for each in batches:
        known = known.with_batch(each, usual(len(each.tasks)), disturbed=disturbed)
    return known


# Speed


def test_an_executor_that_takes_longer_for_the_same_rows_is_slower() -> None:
    known = after(*(batch(n, [("slow", 200.0), ("fast", 100.0)]) for n in range(60)))
    assert known.speeds == pytest.approx({"slow": 0.75, "fast": 1.5}, rel=1e-3)


def test_one_odd_batch_does_not_make_an_executor_slow() -> None:
    known = after(batch(0, [("a", 10_000.0), ("b", 1.0)]))
    assert known.speeds == pytest.approx({"a": 1 + 0.15 * (0.5 - 1), "b": 1 + 0.15 * 3}, rel=1e-3)


def test_rows_are_compared_within_their_operator() -> None:
    one = TaskObservation(TaskId(QUERY, 0, 0), "a", 100.0, 100, 0, 0)
    other = TaskObservation(TaskId(QUERY, 1, 0), "b", 900.0, 100, 0, 0)
    both = BatchObservation(QUERY, RUN, 0, 500.0, 200, None, 1000, 1000.0, (one, other))
    known = Experience().with_batch(both, usual(1), disturbed=False)
    assert known.speeds == pytest.approx({"a": 1.0, "b": 1.0})


def test_one_executor_alone_shows_nothing_about_its_speed() -> None:
    assert after(batch(0, [("a", 100.0), ("a", 300.0)])).speeds == {}


def test_a_batch_that_was_disturbed_shows_nothing_about_speed() -> None:
    slow = batch(0, [("a", 900.0), ("b", 100.0)])
    assert after(slow, disturbed=True).speeds == {}


def test_a_batch_with_moves_shows_nothing_about_speed() -> None:
    first = batch(0, [("a", 100.0), ("b", 100.0)])
    moved = batch(1, [("b", 900.0), ("b", 100.0)])
    assert after(first, moved).speeds == pytest.approx({"a": 1.0, "b": 1.0})


# Moves


def test_where_tasks_ran_is_remembered() -> None:
    known = after(batch(0, [("a", 1.0), ("b", 1.0)]), batch(1, [("a", 1.0)]))
    assert known.where == {TaskId(QUERY, 0, 0): "a", TaskId(QUERY, 0, 1): "b"}
    assert known.seen == {"a", "b"}


def test_what_a_move_takes_beyond_the_usual_run_is_loading_and_what_is_left_is_sync() -> None:
    first = batch(0, [("a", 100.0), ("b", 100.0)])
    moved = batch(1, [("b", 260.0), ("b", 100.0)], duration_ms=800.0)
    known = after(first, moved)
    ((size, ms),) = known.loads
    assert (size, ms) == pytest.approx((8.0 * MIB, 160.0))
    assert known.syncs == pytest.approx((800 - 500 - 160,))
    assert known.starts == ()


def test_the_first_task_of_an_executor_pays_for_its_start() -> None:
    first = batch(0, [("a", 100.0), ("a", 100.0)])
    moved = batch(1, [("new", 1100.0), ("new", 300.0)], state_bytes=0)
    known = after(first, moved)
    assert known.starts == pytest.approx((1000.0,))
    assert [size for size, _ in known.loads] == [0.0], "the second has loaded alone"
    assert [ms for _, ms in known.loads] == pytest.approx([200.0])


def test_before_any_interval_is_known_moves_teach_nothing() -> None:
    first = after(batch(0, [("a", 100.0)]))
    unknown = Query(QUERY, RUN, load=QueryLoad())
    known = first.with_batch(batch(1, [("b", 900.0)]), unknown, disturbed=False)
    assert (known.loads, known.syncs, known.starts) == ((), (), ())
    assert known.where == {TaskId(QUERY, 0, 0): "b"}


def test_old_moves_are_forgotten() -> None:
    there = batch(0, [("a", 100.0), ("b", 100.0)])
    known = after(there)
    for number in range(1, 200):
        node = "ab"[number % 2]
        known = after(batch(number, [(node, 150.0), ("b", 100.0)]), experience=known)
    assert (len(known.loads), len(known.syncs)) == (60, 60)


# What is used


def test_the_settings_hold_until_enough_moves_were_seen() -> None:
    two = Experience(loads=((8e6, 100.0),) * 2, syncs=(10.0, 20.0))
    assert two.bytes_per_s(5.0) == 5.0
    assert two.sync_ms(7.0) == 7.0
    assert two.cold_ms(9.0) == 9.0


def test_enough_moves_replace_the_settings() -> None:
    three = Experience(loads=((8e6, 100.0),) * 3, syncs=(10.0, 20.0, 900.0), starts=(300.0,))
    assert three.bytes_per_s(5.0) == pytest.approx(80e6)
    assert three.sync_ms(7.0) == 20.0
    assert three.cold_ms(9.0) == 300.0


@pytest.mark.parametrize("loads", [((10.0, 100.0),) * 5, ((8e6, 0.0),) * 5])
def test_little_state_or_no_time_shows_nothing_about_the_speed_of_loading(
    loads: tuple[tuple[float, float], ...],
) -> None:
    assert Experience(loads=loads).bytes_per_s(5.0) == 5.0
