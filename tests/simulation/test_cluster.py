from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.control.runtime_contract import RuntimeContract

from elastream.control.observation import TaskId
from elastream.model.errors import ElastreamError
from elastream.simulation.cluster import ClusterSettings, SimulatedCluster
from elastream.simulation.workload import SimulatedTask, Workload, even_workload


@dataclass(frozen=True)
class SimulatedRuntime:
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
        for _ in range(number):
            self.cluster.run_batch()


class TestSimulatedRuntime(RuntimeContract):
    @pytest.fixture
    def runtime(self) -> SimulatedRuntime:
        return SimulatedRuntime(SimulatedCluster(even_workload(6, lambda _: 600.0)))


def cluster(rows_per_s: float = 1000, tasks: int = 4, **settings: float) -> SimulatedCluster:
    return SimulatedCluster(
        even_workload(tasks, lambda _: rows_per_s),
        ClusterSettings(**settings),  # type: ignore[arg-type]
    )


def test_a_batch_takes_its_overhead_and_the_busiest_executors_time() -> None:
    batch = cluster(tasks=3, load_ms_per_mib=0).run_batch()
    assert batch is not None
    assert batch.rows == 1000
    assert batch.duration_ms == 100 + 333 + 333
    assert sum(task.rows for task in batch.tasks) == 1000


def test_cores_share_the_work_of_an_executor() -> None:
    batch = cluster(executors=1, cores=4, load_ms_per_mib=0).run_batch()
    assert batch is not None
    assert batch.duration_ms == 100 + 250


def test_a_query_that_cannot_keep_up_has_a_growing_backlog() -> None:
    slow = cluster(rows_per_s=5000, most_rows=1000)
    waiting = [batch.backlog or 0 for _ in range(4) if (batch := slow.run_batch())]
    assert waiting == sorted(set(waiting))


def test_batches_begin_no_more_often_than_the_trigger() -> None:
    calm = cluster(rows_per_s=10)
    calm.run_batch()
    batch = calm.run_batch()
    assert batch is not None
    assert batch.interval_ms == pytest.approx(1000, abs=20)


def test_a_moved_task_loads_its_state_once() -> None:
    moving = cluster(rows_per_s=0, load_ms_per_mib=7)
    moving.run_batch()
    moving.place({TaskId(0, 0): "1"})
    loads = []
    for _ in range(2):
        batch = moving.run_batch()
        assert batch is not None
        loads.append([task.run_ms for task in batch.tasks])
    assert loads == [[7, 0, 0, 0], [0, 0, 0, 0]]


def test_a_cold_executor_makes_its_first_task_pay_and_a_warm_one_does_not() -> None:
    def worst(*, warm: bool) -> float:
        grown = cluster(rows_per_s=0, cold_ms=900, load_ms_per_mib=0)
        grown.run_batch()
        grown.grow(3, timeout_s=1)
        if warm:
            grown.warm(["2"])
        grown.place({TaskId(0, 0): "2", TaskId(0, 1): "2"})
        batch = grown.run_batch()
        assert batch is not None
        return batch.duration_ms

    assert (worst(warm=False), worst(warm=True)) == (1000, 100)


def test_tasks_of_a_dead_executor_run_elsewhere() -> None:
    hurt = cluster()
    hurt.run_batch()
    hurt.kill("0")
    batch = hurt.run_batch()
    assert batch is not None
    assert {task.executor for task in batch.tasks} == {"1"}


def test_without_executors_the_query_waits() -> None:
    dead = cluster(executors=1)
    dead.kill("0")
    assert dead.run_batch() is None
    dead.grow(1, timeout_s=1)
    batch = dead.run_batch()
    assert batch is not None
    assert batch.rows == 2000


def test_growing_ends_at_the_slots() -> None:
    assert len(cluster(slots=3).grow(8, timeout_s=1)) == 3


def test_an_executor_that_holds_state_is_not_released() -> None:
    busy = cluster()
    busy.run_batch()
    with pytest.raises(ElastreamError, match="executor 1 still holds state"):
        busy.release(["1"])


def test_rows_are_shared_within_each_operator() -> None:
    tasks = tuple(
        SimulatedTask(TaskId(operator, j), share, 1.0, 0)
        for operator in (0, 1)
        for j, share in enumerate([0.5, 0.3, 0.2])
    )
    assert Workload(tasks, lambda _: 1.0).rows_of_tasks(11) == [6, 3, 2, 6, 3, 2]


def test_the_same_run_twice_is_the_same() -> None:
    def run() -> list[object]:
        one = cluster(rows_per_s=1234.5, tasks=7)
        return [one.run_batch() for _ in range(10)]

    assert run() == run()
