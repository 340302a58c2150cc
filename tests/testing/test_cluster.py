from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from tests.core.runtime_contract import RuntimeContract

from elastream.core.events import (
    BatchObserved,
    ExecutorsChanged,
    Fact,
    QueryJoined,
    QueryLeft,
    Status,
)
from elastream.core.ports import Ticket
from elastream.model.batch import stage_length
from elastream.model.errors import ElastreamError, ProblemError
from elastream.model.observation import BatchObservation, OperatorGraph, TaskId
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedTask,
    Workload,
    even_workload,
)


@dataclass(frozen=True)
class SimulatedApplication:
    cluster: SimulatedCluster

    @property
    def monitor(self) -> SimulatedCluster:
        return self.cluster

    @property
    def pool(self) -> SimulatedCluster:
        return self.cluster

    @property
    def placement(self) -> SimulatedCluster:
        return self.cluster

    def pass_batches(self, number: int) -> None:
        self.cluster.run_batches(number)

    def pass_time(self) -> None:
        self.cluster.advance(2)


class TestSimulatedRuntime(RuntimeContract):
    @pytest.fixture
    def runtime(self) -> SimulatedApplication:
        return SimulatedApplication(SimulatedCluster(even_workload(6, lambda _: 600.0)))


def cluster(
    rows_per_s: float | Callable[[float], float] = 1000, tasks: int = 4, **settings: Any
) -> SimulatedCluster:
    rate = rows_per_s if callable(rows_per_s) else lambda _: rows_per_s
    return SimulatedCluster(even_workload(tasks, rate), ClusterSettings(**settings))


def batch_of(one: SimulatedCluster) -> BatchObservation:
    found = one.run_batch()
    assert found is not None
    return found


def task(partition: int, query: str = "query") -> TaskId:
    return TaskId(query, 0, partition)


# Batches


def test_a_batch_takes_its_overhead_and_the_busiest_executors_time() -> None:
    batch = batch_of(cluster(tasks=3, load_ms_per_mib=0))
    assert batch.rows == 1000
    assert batch.duration_ms == 100 + 333 + 333
    assert sum(task.rows for task in batch.tasks) == 1000


def test_cores_share_the_work_of_an_executor() -> None:
    assert batch_of(cluster(executors=1, cores=4, load_ms_per_mib=0)).duration_ms == 100 + 250


def two_operators(**more: Any) -> Workload:
    """Two operators of two tasks, with 600 and 200 rows of 1 ms a second, and with 100 and 900."""
    shares = [(0.6, 0.2), (0.1, 0.9)]
    tasks = tuple(
        SimulatedTask(operator, j, share, 1.0, 100)
        for operator, both in enumerate(shares)
        for j, share in enumerate(both)
    )
    return Workload(tasks, lambda _: 1000.0, **more)


def test_operators_are_stages_one_after_another() -> None:
    one = SimulatedCluster(two_operators(), ClusterSettings(load_ms_per_mib=0))
    batch = batch_of(one)
    assert {each.task.partition: each.executor for each in batch.tasks} == {0: "0", 1: "1"}
    assert batch.duration_ms == 100 + 600 + 900


def test_an_operator_runs_after_those_whose_rows_it_reads() -> None:
    assert two_operators().stages == (0, 1)
    assert two_operators(feeds={0: None, 1: 0}).stages == (1, 0)
    assert two_operators(feeds={0: None, 1: 0}).graph == OperatorGraph({0: None, 1: 0})
    with pytest.raises(ProblemError, match=r"feeds: operator 1 is missing"):
        two_operators(feeds={0: None})


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_batch_takes_what_the_model_of_a_batch_says(slots: int) -> None:
    dice = Random(4)
    for _ in range(50):
        shares = [[dice.random() for _ in range(5 * slots)] for _ in range(3)]
        tasks = tuple(
            SimulatedTask(operator, j, share / sum(each), dice.random(), 0)
            for operator, each in enumerate(shares)
            for j, share in enumerate(each)
        )
        settings = ClusterSettings(executors=3, cores=slots)
        batch = batch_of(SimulatedCluster(Workload(tasks, lambda _: 700.0), settings))
        stages = [
            stage_length(
                [(int(e.executor), e.run_ms) for e in batch.tasks if e.task.operator == operator],
                [slots] * 3,
            )
            for operator in range(3)
        ]
        assert batch.duration_ms == pytest.approx(100 + sum(stages))


def test_a_stage_takes_at_least_its_longest_task() -> None:
    tasks = tuple(SimulatedTask(0, j, share, 1.0, 0) for j, share in enumerate((0.2, 0.2, 0.6)))
    one = SimulatedCluster(Workload(tasks, lambda _: 1000.0), ClusterSettings(executors=1, cores=2))
    assert batch_of(one).duration_ms == 100 + 200 + 600, "in Spark's order, the longest last"


@pytest.mark.parametrize(
    ("cores", "task_cpus", "at_once"),
    [(1, 1.0, 1), (4, 1.0, 4), (4, 3.0, 1), (1, 2.0, 1), (1, 0.5, 2), (3, 0.3, 10)],
)
def test_an_executor_has_a_slot_for_each_share_of_its_cores(
    cores: int, task_cpus: float, at_once: int
) -> None:
    assert ClusterSettings(cores=cores, task_cpus=task_cpus).tasks_at_once == at_once


def test_two_tasks_that_share_a_core_hold_their_slots_twice_as_long() -> None:
    batch = batch_of(cluster(executors=1, task_cpus=0.5, load_ms_per_mib=0))
    assert [each.run_ms for each in batch.tasks] == [500] * 4
    assert batch.duration_ms == 100 + 1000


def test_a_task_takes_its_own_time_besides_that_of_its_rows() -> None:
    workload = replace(even_workload(4, lambda _: 1000.0), task_ms=7.0)
    batch = batch_of(SimulatedCluster(workload, ClusterSettings(load_ms_per_mib=0)))
    assert [each.run_ms for each in batch.tasks] == [257.0] * 4
    assert batch.duration_ms == 100 + 2 * 257


def test_a_host_may_be_slower_than_another() -> None:
    uneven = cluster(tasks=2, hosts=("fast", "slow"), speeds={"slow": 0.5}, load_ms_per_mib=0)
    assert [task.run_ms for task in batch_of(uneven).tasks] == [500, 1000]


def test_work_outside_state_is_shared_by_all_executors_and_reported() -> None:
    workload = even_workload(2, lambda _: 1000.0, outside_row_ms=0.4)
    batch = batch_of(SimulatedCluster(workload, ClusterSettings(load_ms_per_mib=0)))
    assert batch.outside_ms == {"0": 200.0, "1": 200.0}
    assert batch.duration_ms == 100 + 500 + 200


def test_rows_that_wait_when_a_batch_commits_are_its_backlog() -> None:
    batch = batch_of(cluster(rows_per_s=1000, executors=1, load_ms_per_mib=0))
    assert (batch.rows, batch.duration_ms, batch.backlog) == (1000, 1100, 1100)


def test_a_query_that_cannot_keep_up_has_a_growing_backlog() -> None:
    workload = replace(even_workload(4, lambda _: 5000.0), most_rows=1000)
    slow = SimulatedCluster(workload)
    waiting = [batch_of(slow).backlog or 0 for _ in range(4)]
    assert waiting == sorted(set(waiting))


def test_batches_begin_no_more_often_than_the_trigger() -> None:
    calm = cluster(rows_per_s=10)
    calm.run_batches(2)
    assert batch_of(calm).interval_ms == pytest.approx(1000, abs=20)


def test_rows_arrive_at_the_rate_of_their_time() -> None:
    rising = cluster(lambda second: 100 if second < 5 else 400, load_ms_per_mib=0)
    rows = [batch.rows for batch in rising.advance(9)]
    assert rows[1:4] == [100] * 3
    assert rows[-2:] == [400] * 2


def test_rows_are_shared_within_each_operator() -> None:
    tasks = tuple(
        SimulatedTask(operator, j, share, 1.0, 0)
        for operator in (0, 1)
        for j, share in enumerate([0.5, 0.3, 0.2])
    )
    workload = Workload(tasks, lambda _: 1.0)
    assert workload.rows_of_tasks(11) == [6, 3, 2, 6, 3, 2]
    assert workload.graph == OperatorGraph({0: None, 1: None})
    assert workload.task_ids[3:5] == (TaskId("query", 1, 0), TaskId("query", 1, 1))


def test_the_same_run_twice_is_the_same() -> None:
    def run() -> list[object]:
        one = cluster(rows_per_s=1234.5, tasks=7)
        return [one.run_batch() for _ in range(10)]

    assert run() == run()


# Moves


def test_a_moved_task_loads_its_state_once() -> None:
    moving = cluster(rows_per_s=4, load_ms=3, load_ms_per_mib=7)
    batch_of(moving)
    moving.place("query", {task(0): "1"}, ticket=Ticket())
    loads = [[each.run_ms - each.rows for each in batch_of(moving).tasks] for _ in range(2)]
    assert loads == [[10, 0, 0, 0], [0, 0, 0, 0]]


def test_a_placement_that_is_not_obeyed_is_forgotten() -> None:
    deaf = cluster()
    before = {each.task: each.executor for each in batch_of(deaf).tasks}
    deaf.obeys = lambda _: False
    deaf.place("query", {task(0): "1", task(1): "0"}, ticket=Ticket())
    deaf.run_batches(1)
    deaf.obeys = lambda _: True
    deaf.run_batches(1)
    assert deaf.where() == before


def test_a_cold_executor_makes_its_first_task_pay_and_a_warm_one_does_not() -> None:
    def worst(*, warm: bool) -> float:
        grown = cluster(rows_per_s=4, cold_ms=900, load_ms_per_mib=0)
        batch_of(grown)
        grown.grow(3, timeout_s=1, ticket=Ticket())
        if warm:
            grown.warm(["2"], ticket=Ticket())
        grown.place("query", {task(0): "2", task(1): "2"}, ticket=Ticket())
        return batch_of(grown).duration_ms

    assert worst(warm=False) - worst(warm=True) == 900


def test_who_places_hears_whether_the_query_was_idle() -> None:
    quiet = cluster(rows_per_s=0)
    assert quiet.place("query", {task(0): "1"}, ticket=Ticket()).idle
    busy = cluster(rows_per_s=1000)
    busy.advance(1.2)
    assert not busy.place("query", {task(0): "1"}, ticket=Ticket()).idle


def test_what_was_placed_in_idle_time_holds_in_the_next_batch() -> None:
    rates = [100.0]
    resting = cluster(lambda _: rates[0])
    resting.run_batches(2)
    rates[0] = 0.0
    resting.advance(5)
    resting.place("query", {task(j): "0" for j in range(4)}, ticket=Ticket())
    resting.advance(5)
    rates[0] = 100.0
    assert {each.executor for each in batch_of(resting).tasks} == {"0"}


# Contention


def test_queries_whose_batches_overlap_wait_for_each_others_slots() -> None:
    workloads = [even_workload(2, lambda _: 400.0, name=name) for name in ("first", "second")]
    first, second = SimulatedCluster(workloads, ClusterSettings(load_ms_per_mib=0)).advance(1.6)
    assert (first.query, first.duration_ms) == ("first", 50 + 200 + 50)
    assert (second.query, second.duration_ms) == ("second", 50 + 200 + 200 + 50)
    assert [each.run_ms for each in (*first.tasks, *second.tasks)] == [200] * 4
    assert (first.waited_ms, second.waited_ms) == (0, 200)


def test_a_stage_queues_behind_a_batch_that_came_between() -> None:
    workloads = [two_operators(), even_workload(2, lambda _: 400.0, name="other")]
    one = SimulatedCluster(workloads, ClusterSettings(load_ms_per_mib=0))
    other, query, *_ = one.advance(3)
    assert (other.query, other.duration_ms) == ("other", 50 + 600 + 200 + 50)
    assert (query.query, query.duration_ms) == ("query", 50 + 600 + 900 + 50)
    assert (other.waited_ms, query.waited_ms) == (600, 0)
    assert sum(each.run_ms for each in query.tasks) == 600 + 200 + 100 + 900


def test_a_query_that_ends_runs_no_further_stage() -> None:
    one = SimulatedCluster(two_operators(), ClusterSettings(load_ms_per_mib=0))
    one.advance(1.2)
    one.end_query("query")
    one.advance(0.5)
    report = facts_of(one, Status)
    one.run_job("1", 5)
    one.advance(0.5)
    assert [dict(each.other_ms) for each in report] == [{"1": pytest.approx(300)}]


def test_a_job_of_no_query_holds_a_slot_and_is_reported_while_it_does() -> None:
    one = cluster(rows_per_s=400, load_ms_per_mib=0)
    report = facts_of(one, Status)
    one.advance(1.5)
    one.run_job("1", 2.0)
    batches = one.advance(4.6)
    assert [dict(each.other_ms) for each in report] == [
        {}, {"1": 500.0}, {"1": 1000.0}, {"1": 500.0}, {}, {},
    ]  # fmt: skip
    assert [each.jobs for each in report][:4] == [1, 2, 2, 1]
    assert [each.duration_ms for each in batches[:3]] == [1750, 450, 300]
    assert [each.waited_ms for each in batches[:3]] == [1450, 0, 0]


def test_a_job_waits_for_its_slot_and_ends_with_its_executor() -> None:
    one = cluster(rows_per_s=400, load_ms_per_mib=0)
    report = facts_of(one, Status)
    one.advance(1.1)
    one.run_job("0", 300)
    one.advance(2)
    assert [dict(each.other_ms) for each in report][1] == {"0": 750.0}
    one.kill("0")
    one.advance(2)
    assert report[-1].other_ms == {}
    with pytest.raises(ProblemError, match="seconds: 0 is not positive"):
        one.run_job("1", 0)


# Executors


def test_an_executor_with_more_state_than_memory_is_lost_when_the_batch_ends() -> None:
    one = cluster(memory_bytes=2 << 20)
    batch_of(one)
    report = facts_of(one, ExecutorsChanged)
    batch_of(one)
    assert report == []
    one.place("query", {task(0): "1"}, ticket=Ticket())
    batch_of(one)
    assert [[each.id for each in fact.executors] for fact in report] == [["0"]]
    assert set(one.where()) == {task(2)}


def test_copies_of_state_take_memory() -> None:
    one = cluster(memory_bytes=2 << 20, copy_s=0.0)
    batch_of(one)
    one.copy({task(0): "1"}, ticket=Ticket())
    batch_of(one)
    assert [each.id for each in one.executors()] == ["0"]


def test_tasks_of_a_dead_executor_run_elsewhere() -> None:
    hurt = cluster()
    batch_of(hurt)
    hurt.kill("0")
    assert {each.executor for each in batch_of(hurt).tasks} == {"1"}


def test_without_executors_the_queries_wait() -> None:
    dead = cluster(executors=1)
    dead.kill("0")
    assert dead.run_batch(most_s=2) is None
    dead.grow(1, timeout_s=1, ticket=Ticket())
    assert batch_of(dead).rows >= 2000


def test_growing_ends_at_the_slots() -> None:
    assert len(cluster(slots=3).grow(8, timeout_s=1, ticket=Ticket())) == 3


def test_executors_are_put_on_hosts_in_turn() -> None:
    spread = cluster(hosts=("a", "b"))
    after = spread.grow(5, timeout_s=1, ticket=Ticket())
    assert [executor.host for executor in after] == ["a", "b", "a", "b", "a"]
    assert [executor.warm for executor in after] == [True, True, False, False, False]


def test_an_executor_that_holds_state_is_not_released() -> None:
    busy = cluster()
    busy.advance(1.2)
    with pytest.raises(ElastreamError, match="executor 1 still holds state"):
        busy.release(["1"], ticket=Ticket())


def test_an_executor_may_go_where_its_query_is_idle() -> None:
    rates = [100.0]
    resting = cluster(lambda _: rates[0])
    resting.run_batches(2)
    rates[0] = 0.0
    resting.advance(5)
    resting.release(["0", "1"], ticket=Ticket())
    assert resting.executors() == ()


def test_an_executor_that_is_about_to_get_state_is_not_released() -> None:
    busy = cluster()
    busy.advance(1.2)
    busy.grow(3, timeout_s=1, ticket=Ticket())
    busy.place("query", {task(0): "2"}, ticket=Ticket())
    with pytest.raises(ElastreamError, match="executor 2 still holds state"):
        busy.release(["2"], ticket=Ticket())


def test_executors_beyond_the_room_there_is_now_never_come() -> None:
    one = cluster()
    one.slots = 3
    assert len(one.grow(8, timeout_s=1, ticket=Ticket())) == 3
    one.slots = 5
    assert len(one.grow(8, timeout_s=1, ticket=Ticket())) == 5


def test_an_executor_may_become_slow_and_recover() -> None:
    one = cluster(rows_per_s=400, tasks=2, load_ms_per_mib=0)
    times = []
    for speed in (1.0, 0.5, 1.0):
        one.set_speed("0", speed)
        one.run_batches(1)
        times.append([each.run_ms for each in batch_of(one).tasks])
    assert times == [[200, 200], [400, 200], [200, 200]]


def test_a_batch_may_be_held_up_once_with_no_one_busy() -> None:
    one = cluster(rows_per_s=400, load_ms_per_mib=0)
    one.run_batches(2)
    one.hold_up("query", 7)
    held = batch_of(one)
    assert held.duration_ms == 100 + 200 + 7000
    assert sum(each.run_ms for each in held.tasks) == 400
    assert batch_of(one).duration_ms < 7000


def test_whom_no_one_knows_can_be_neither_killed_nor_slowed() -> None:
    one = cluster()
    for act in (one.kill, lambda executor: one.set_speed(executor, 0.5)):
        with pytest.raises(ProblemError, match="executor: '9' is not alive; alive are 0, 1"):
            act("9")
    with pytest.raises(ProblemError, match="speed: 0 is not positive"):
        one.set_speed("0", 0)


def test_hosts_are_as_far_from_each_other_as_the_settings_say() -> None:
    one = cluster(round_trips_ms={("a", "b"): 4.0})
    assert one.round_trips_ms([("a", "b"), ("b", "a"), ("a", "c")]) == {
        ("a", "b"): 4.0,
        ("b", "a"): 4.0,
    }
    assert cluster().round_trips_ms([("a", "b")]) == {}


# What is reported


def facts_of(one: SimulatedCluster, kind: type[Fact]) -> list[Any]:
    facts: list[Any] = []
    one.subscribe(lambda fact: facts.append(fact) if isinstance(fact, kind) else None)
    return facts


def test_a_query_is_reported_with_its_shape() -> None:
    (joined,) = facts_of(cluster(), QueryJoined)
    assert joined == QueryJoined(0, "query", "run 1", OperatorGraph({0: None}), 4, 1000.0)


def test_the_status_is_reported_every_second() -> None:
    rates = [0.0]
    one = cluster(lambda _: rates[0])
    report = facts_of(one, Status)
    one.advance(3)
    assert report == [Status(1000 * second, frozenset({"query"}), 0) for second in (1, 2, 3)]
    rates[0] = 2000.0
    one.advance(2)
    assert report[-1] == Status(5000, frozenset(), 1)


def test_the_status_may_be_reported_less_often() -> None:
    one = cluster(rows_per_s=0, status_s=20.0)
    report = facts_of(one, Status)
    one.advance(50)
    assert [fact.at_ms for fact in report] == [20_000, 40_000]


@pytest.mark.parametrize(
    "settings", [{"pool_s": -1.0}, {"status_s": 0.0}, {"task_cpus": 0.0}, {"cores": 0}]
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ProblemError, match=next(iter(settings))):
        ClusterSettings(**settings)  # type: ignore[arg-type]


def test_what_is_to_be_done_later_is_done_in_its_order() -> None:
    one = cluster(rows_per_s=0)
    done: list[float] = []
    for seconds in (3.5, 2.0, 0.0):
        one.later(seconds, lambda: done.append(one.now_ms))
    assert done == [0.0]
    one.advance(10)
    assert done == [0.0, 2000.0, 3500.0]


def test_a_death_is_reported_at_once_or_with_the_next_status() -> None:
    one = cluster(rows_per_s=0, executors=3)
    report = facts_of(one, ExecutorsChanged)
    one.kill("0")
    assert [fact.at_ms for fact in report] == [0]
    one.kill("1", at_once=False)
    assert len(report) == 1
    one.advance(1)
    assert [executor.id for executor in report[-1].executors] == ["2"]


def test_executors_that_came_are_reported_with_the_next_status() -> None:
    one = cluster(rows_per_s=0)
    one.advance(1)
    report = facts_of(one, ExecutorsChanged)
    one.grow(3, timeout_s=1, ticket=Ticket())
    one.advance(2)
    assert [len(fact.executors) for fact in report] == [3]


# Several queries


def two_queries() -> SimulatedCluster:
    return SimulatedCluster(
        [
            even_workload(2, lambda _: 100.0, name="quick"),
            even_workload(2, lambda _: 100.0, name="slow", trigger_ms=4000.0),
        ]
    )


def test_queries_run_next_to_each_other_each_at_its_trigger() -> None:
    one = two_queries()
    batches = one.advance(20.5)
    ended = [batch.query for batch in batches]
    assert (ended.count("quick"), ended.count("slow")) == (20, 5)
    assert [b.batch for b in batches if b.query == "slow"] == list(range(5))


def test_a_query_may_end_and_begin_again_in_a_new_run() -> None:
    one = two_queries()
    report = facts_of(one, QueryJoined | QueryLeft)  # type: ignore[arg-type]
    workload = one.queries["slow"].workload
    one.advance(2)
    one.end_query("slow", "stopped")
    one.begin_query(workload)
    assert [(type(fact), fact.query, fact.run) for fact in report] == [
        (QueryJoined, "quick", "run 1"),
        (QueryJoined, "slow", "run 2"),
        (QueryLeft, "slow", "run 2"),
        (QueryJoined, "slow", "run 3"),
    ]
    assert report[2].why == "stopped"
    batches = [batch for batch in one.advance(9) if batch.query == "slow"]
    assert [batch.batch for batch in batches][:2] == [0, 1]
    assert {batch.run for batch in batches} == {"run 3"}


def test_every_batch_is_reported_as_it_commits() -> None:
    one = two_queries()
    report = facts_of(one, BatchObserved)
    batches = one.advance(10)
    assert [fact.batch for fact in report] == batches
    assert [fact.at_ms for fact in report] == sorted(fact.at_ms for fact in report)
