"""Tasks of stages that queue for the slots of executors."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elastream.testing.slots import SharedCores, Slots, Stage

Tasks = list[tuple[str | None, float]]


@dataclass
class Query:
    """Stages that are submitted one after another, and what comes of them."""

    slots: Slots
    executors: str
    ended_ms: list[float] = field(default_factory=list)
    ran: list[list[tuple[str, float, float]]] = field(default_factory=list)

    def submit(self, stages: list[Tasks], at_ms: float) -> None:
        if not stages:
            return
        stage = Stage(stages[0], dict.fromkeys(self.executors, 1.0))
        self.ran.append(stage.ran)

        def ended(ended_ms: float) -> None:
            self.ended_ms.append(ended_ms)
            self.submit(stages[1:], ended_ms)

        stage.ended = ended
        self.slots.submit(stage, at_ms)


def run(slots: Slots, *queries: tuple[float, list[Tasks]], executors: str = "ab") -> list[Query]:
    """Run queries, each from its moment on."""
    found = []
    for begins_ms, stages in queries:
        found.append(Query(slots, executors))
        found[-1].submit(stages, begins_ms)
    while slots.next_ms() < float("inf"):
        slots.step()
    return found


def test_a_stage_ends_with_its_last_task_and_the_next_begins_then() -> None:
    (query,) = run(Slots(1), (5, [[("a", 10), ("b", 30)], [("a", 20), ("b", 1)]]))
    assert query.ended_ms == [35, 55]
    assert query.ran[1] == [("a", 35, 55), ("b", 35, 36)]


def test_tasks_of_an_executor_take_its_slots_in_their_order() -> None:
    (query,) = run(Slots(2), (0, [[("a", 10), ("a", 4), ("a", 3), ("a", 9)]]))
    assert query.ran[0] == [("a", 0, 10), ("a", 0, 4), ("a", 4, 7), ("a", 7, 16)]


def test_what_is_submitted_first_is_served_first() -> None:
    early, late = run(Slots(1), (0, [[("a", 10), ("a", 10)]]), (5, [[("a", 1), ("b", 1)]]))
    assert early.ended_ms == [20]
    assert late.ran == [[("a", 20, 21), ("b", 5, 6)]]


def test_a_task_that_may_run_anywhere_takes_the_first_slot_that_is_free() -> None:
    _, query = run(Slots(1), (0, [[("a", 300)]]), (5, [[(None, 10), (None, 10), (None, 10)]]))
    assert query.ran[0] == [("b", 5, 15), ("b", 15, 25), ("b", 25, 35)]


def test_an_executor_with_more_slots_than_cores_is_slower_while_it_runs_more_tasks() -> None:
    tasks: Tasks = [("a", 10), ("a", 30), ("a", 10)]
    (query,) = run(SharedCores(2, cores=1), (0, [tasks]))
    assert query.ran[0] == [("a", 0, 20), ("a", 0, 50), ("a", 20, 40)]
    (alone,) = run(SharedCores(2, cores=1), (0, [tasks[:1]]))
    assert alone.ended_ms == [10]


@pytest.mark.parametrize("slots", [Slots(2), SharedCores(4, cores=2)])
def test_a_stage_without_tasks_takes_no_time(slots: Slots) -> None:
    (query,) = run(slots, (7, [[], [("a", 1)]]))
    assert query.ended_ms == [7, 8]


ms = st.integers(1, 1 << 16).map(lambda number: number / 64)  # sums of which are exact
pinned = st.lists(st.tuples(st.sampled_from("abc"), ms), max_size=6)
anywhere = st.lists(st.tuples(st.none(), ms), min_size=1, max_size=6)


@given(
    st.lists(st.tuples(ms, st.lists(pinned | anywhere, min_size=1, max_size=4)), max_size=4),
    st.integers(1, 3),
)
@settings(max_examples=300)
def test_what_is_known_at_once_is_what_happens_one_by_one(
    queries: list[tuple[float, list[Tasks]]], slots: int
) -> None:
    at_once = run(Slots(slots), *queries, executors="abc")
    one_by_one = run(SharedCores(slots, cores=slots), *queries, executors="abc")
    ends = [{end for stage in query.ran for _, _, end in stage} for query in one_by_one]
    assume(all(one.isdisjoint(other) for one, other in combinations(ends, 2)))  # else who is first?
    for each, other in zip(at_once, one_by_one, strict=True):
        assert (each.ended_ms, each.ran) == (other.ended_ms, other.ran)


@given(st.lists(pinned, min_size=1, max_size=3), st.integers(1, 2), st.integers(1, 3))
def test_shared_cores_do_no_more_than_cores_can(stages: list[Tasks], cores: int, more: int) -> None:
    (query,) = run(SharedCores(cores + more, cores), (0.0, stages))
    begins_ms = 0.0
    for tasks, ended_ms in zip(stages, query.ended_ms, strict=True):
        for executor in "abc":
            work = [task_ms for node, task_ms in tasks if node == executor]
            least_ms = max(sum(work) / cores, max(work, default=0.0))
            assert ended_ms - begins_ms >= least_ms * (1 - 1e-9)
        begins_ms = ended_ms
    assert query.ended_ms[-1] <= sum(task_ms for tasks in stages for _, task_ms in tasks) + 1e-6
