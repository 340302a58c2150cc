"""Queries in Real-time Mode: seen in the middle of their batches, moved at the end of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.core.builders import QUERY, RUN, batch, executors, task
from tests.core.scenes import POLICY, after, kinds, reasons

from elastream.core.events import (
    Answered,
    BatchObserved,
    BoundaryNear,
    Instruction,
    LoadObserved,
    Log,
    MoveRequested,
    Place,
    Plan,
    QueryJoined,
    QueryRestarted,
    Release,
    ScaleRequested,
)
from elastream.core.goal import mean_utilisation
from elastream.core.guards import log_outcome
from elastream.core.migrator.moving import Moving
from elastream.core.migrator.problem import stages_of
from elastream.core.ports import Placed
from elastream.core.prediction import busiest_now
from elastream.core.routes import route
from elastream.core.scenes import take_scene
from elastream.core.state import LoopState
from elastream.core.steady import Steady
from elastream.core.step import start_loop, step
from elastream.core.usage import Usage
from elastream.goals.by_hand import ByHand
from elastream.model.observation import LoadObservation, OperatorGraph, RunningTaskLoad, TaskId

BY_HAND = replace(POLICY, goal=ByHand())
TRIGGER_MS = 60_000


def look(
    at_ms: int,
    where: Sequence[str],
    *,
    number: int = 0,
    cpu_ms: float = 100.0,
    interval_ms: float | None = 1000.0,
    outside_ms: Mapping[str, float] | None = None,
    run: str = RUN,
    began_at_ms: int | None = None,
) -> LoadObserved:
    tasks = tuple(RunningTaskLoad(task(j), node, cpu_ms) for j, node in enumerate(where))
    return LoadObserved(
        LoadObservation(
            query=QUERY,
            run=run,
            batch=number,
            at_ms=at_ms,
            ends_at_ms=(number + 1) * TRIGGER_MS,
            interval_ms=interval_ms,
            tasks=tasks,
            outside_ms=outside_ms or {},
            rows=40,
            began_at_ms=began_at_ms,
        )
    )


def near(number: int, run: str = RUN) -> BoundaryNear:
    ends_at_ms = (number + 1) * TRIGGER_MS
    return BoundaryNear(ends_at_ms - 1000, QUERY, run, ends_at_ms)


def ended(number: int, where: Sequence[str]) -> BatchObserved:
    at_ms = (number + 1) * TRIGGER_MS
    return BatchObserved(batch(number, where, at_ms=at_ms, duration_ms=TRIGGER_MS, run_ms=59_000))


def joined(alive: str, tasks: int = 4) -> LoopState:
    state, _ = start_loop(BY_HAND, executors(*alive, task_cpus=0.1), now_ms=0)
    graph = OperatorGraph({0: None})
    return step(state, QueryJoined(0, QUERY, RUN, graph, tasks, TRIGGER_MS, True, tasks + 2))[0]


def acts(report: Sequence[Instruction]) -> list[Instruction]:
    return [each for each in report if isinstance(each, Place | Plan | Release)]


def test_how_a_query_joins_names_the_slots_that_its_batch_takes_at_once() -> None:
    state, _ = start_loop(BY_HAND, executors("a"), now_ms=0)
    event = QueryJoined(0, QUERY, RUN, OperatorGraph({0: None}), 4, TRIGGER_MS, True, 6)
    assert reasons(step(state, event)[1]) == [
        "takes part: 4 tasks in 1 stateful operator, a batch every 60 s, in Real-time Mode: "
        "6 slots at once"
    ]


def test_the_work_of_a_task_is_its_cpu_time_whatever_the_batch_lasts() -> None:
    state, _ = after(
        joined("ab"),
        look(1000, "aabb", interval_ms=None, cpu_ms=0.0),
        look(2000, "aabb", cpu_ms=250.0, outside_ms={"a": 50.0}),
        ended(0, "aabb"),
    )
    load = state.queries[QUERY].load
    assert [known.work for known in load.tasks.values()] == [0.25] * 4
    assert load.outside == {"a": 0.05}
    assert {known.state_bytes for known in load.tasks.values()} == {1000}
    assert (load.batch_ms, load.interval_ms, load.overhead_ms) == (None, None, None)


def test_rows_that_wait_at_a_boundary_say_what_rows_wait_until_the_next_one() -> None:
    end = BatchObserved(
        batch(0, "aabb", at_ms=TRIGGER_MS, duration_ms=TRIGGER_MS, rows=600, backlog=5)
    )
    state, _ = after(joined("ab"), look(1000, "aabb", interval_ms=None), end)
    assert state.queries[QUERY].load.latency_ms == 500
    state, _ = after(state, look(61_000, "aabb", number=1))
    assert state.queries[QUERY].load.latency_ms == 500


def test_places_are_those_of_the_batch_under_way_and_not_of_the_one_that_ended() -> None:
    state, _ = after(joined("ab"), look(59_000, "aaaa"), look(60_100, "aabb", number=1))
    state, _ = after(state, ended(0, "aaaa"))
    assert [state.observed.where(task(j)) for j in range(4)] == list("aabb")


def test_a_boundary_takes_from_the_end_of_a_batch_until_the_tasks_of_the_next_are_launched() -> (
    None
):
    first, next_ = look(1000, "aabb"), look(61_000, "aabb", number=1, began_at_ms=60_900)
    late, _ = after(joined("ab"), first, next_, ended(0, "aabb"))
    early, _ = after(joined("ab"), first, ended(0, "aabb"), next_)
    for state in (late, early):
        query = take_scene(state).queries[QUERY]
        assert (query.slots, query.gap_ms) == (6, 900.0)
        assert state.queries[QUERY].ends_at_ms == 2 * TRIGGER_MS


def test_at_a_boundary_the_end_of_no_batch_is_known() -> None:
    state, _ = after(joined("ab"), look(1000, "aabb"), ended(0, "aabb"))
    query = take_scene(state).queries[QUERY]
    assert (query.ends_at_ms, query.gap_ms) == (None, None)


def test_a_busy_core_is_a_busy_executor_though_its_tasks_share_it() -> None:
    state, _ = after(joined("ab"), look(1000, "aabb", cpu_ms=250.0, outside_ms={"b": 500.0}))
    scene = take_scene(state)
    assert {name: each.busy for name, each in scene.executors.items()} == {"a": 0.5, "b": 1.0}


def test_moves_are_requested_near_the_boundary_and_counted_in_the_next_batch() -> None:
    state, report = after(
        joined("ab"), look(1000, "aaaa"), MoveRequested({task(2): "b", task(3): "b"})
    )
    assert acts(report) == []
    state, report = after(state, look(2000, "aaaa"))
    assert isinstance(state.phase, Moving)
    assert acts(report) == []
    state, report = after(state, near(0))
    assert acts(report) == [Place(1, QUERY, {task(2): "b", task(3): "b"})]
    state, report = after(state, Answered(1, Placed(idle=False)), ended(0, "aaaa"))
    assert kinds(report) == ["wait"]
    state, report = after(state, look(61_000, "aabb", number=1))
    assert isinstance(state.phase, Steady), reasons(report)
    assert "2 tasks moved" in reasons(log_outcome(state)[1] or report)[-1]


def test_a_move_that_the_boundary_did_not_take_is_requested_at_the_next_one() -> None:
    state, _ = after(joined("ab"), look(1000, "aaaa"), MoveRequested({task(2): "b", task(3): "b"}))
    state, _ = after(state, look(2000, "aaaa"), near(0), Answered(1, Placed(idle=False)))
    state, report = after(state, look(61_000, "aaba", number=1), look(63_000, "aaba", number=1))
    assert acts(report) == []
    state, report = after(state, near(1))
    assert acts(report) == [Place(2, QUERY, {task(3): "b"})]
    figures = [each.decision.figures for each in report if hasattr(each, "decision")]
    assert [each["tries"] for each in figures] == [1]


def test_a_boundary_with_nothing_to_move_changes_nothing() -> None:
    state, _ = after(joined("ab"), look(1000, "aabb"))
    assert step(state, near(0)) == (replace(state, now_ms=59_000, executor_s=118.0), ())


def test_facts_of_another_run_are_ignored() -> None:
    state, _ = after(joined("ab"), look(1000, "aabb"))
    later, report = after(state, look(2000, "bbbb", run="run 2"), near(0, run="run 2"))
    assert (later.queries, report) == (state.queries, ())


def test_an_executor_is_released_once_a_look_shows_that_it_holds_nothing() -> None:
    state, report = after(joined("ab"), look(1000, "aabb"), ScaleRequested(1))
    (plan,) = acts(report)
    assert isinstance(plan, Plan)
    state, _ = after(state, Answered(plan.ticket, route(plan.order)), near(0))
    state, report = after(state, ended(0, "aabb"))
    assert acts(report) == []
    (stays,) = set(state.phase.target.goal.values()) if state.phase.target else {""}
    state, report = after(state, look(61_000, stays * 4, number=1))
    (leaves,) = {"a", "b"} - {stays}
    assert [each.ids for each in report if isinstance(each, Release)] == [(leaves,)]


def test_a_query_that_is_seen_is_not_late_however_long_its_batch() -> None:
    state, _ = after(joined("ab"), look(1000, "aabb"))
    query = state.queries[QUERY]
    assert not query.late(30_000)
    assert query.late(32_000)


def test_the_stages_of_a_real_time_query_are_one() -> None:
    tasks = [TaskId(QUERY, operator, j) for operator in (0, 1) for j in (0, 1)]
    assert stages_of(tasks) == ((0, 0, 1, 1), (0, 0))
    assert stages_of(tasks, {QUERY}) == ((), ())


def test_a_busy_core_is_all_its_slots_busy() -> None:
    state, _ = after(
        joined("ab"), look(1000, "aabb", interval_ms=None), look(2000, "aabb", cpu_ms=400.0)
    )
    observed = state.observed
    assert round(mean_utilisation(observed) or 0.0, 6) == 0.8
    assert round(busiest_now(observed, {}) or 0.0, 6) == 0.8
    assert round(Usage(observed, catch_up_s=60, keep_triggers=True).busiest, 6) == 0.8


def test_partitions_of_a_real_time_query_are_left_alone() -> None:
    state, _ = after(joined("ab"), look(1000, "aaaa"), ended(0, "aaaa"))
    assert dict(state.shortages) == {}


def test_what_comes_of_a_failed_query_is_logged() -> None:
    event = QueryRestarted(5000, QUERY, "was started again", {"tries": 2})
    _, report = step(joined("ab"), event)
    (log,) = (each.decision for each in report if isinstance(each, Log))
    assert (log.kind, log.reason, log.figures) == ("restart", "was started again", {"tries": 2})


def test_an_action_may_last_as_long_as_a_batch_and_some() -> None:
    state = joined("ab")
    assert state.action_s == state.policy.timeouts.action_s + TRIGGER_MS / 1000


def test_executors_whose_slots_batches_need_are_not_given_back() -> None:
    alive = executors("a", "b", task_cpus=0.2)
    state, _ = start_loop(BY_HAND, alive, now_ms=0)
    event = QueryJoined(0, QUERY, RUN, OperatorGraph({0: None}), 4, TRIGGER_MS, True, 6)
    state, report = after(state, event, look(1000, "aabb"), ScaleRequested(1))
    assert reasons(report)[-1] == (
        "1 were asked for; Real-time batches need 6 slots at once, and 1 executor has 5"
    )
    assert acts(report) == []


def test_no_executor_gets_more_tasks_than_it_has_slots() -> None:
    alive = executors("a", "b", task_cpus=0.5)
    state, _ = start_loop(BY_HAND, alive, now_ms=0)
    event = QueryJoined(0, QUERY, RUN, OperatorGraph({0: None}), 4, TRIGGER_MS, True, 4)
    state, report = after(state, event, look(1000, "aabb"), MoveRequested({task(2): "a"}))
    assert reasons(report)[-1] == (
        "the placement asked for: 3 Real-time tasks would be on executor a, which has 2 slots"
    )
