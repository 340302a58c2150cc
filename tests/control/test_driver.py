from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from tests.control.builders import task

from elastream.control.decisions import Decision
from elastream.control.driver import Controller, Worker
from elastream.control.observation import Executor, TaskId
from elastream.control.policy import Policy
from elastream.control.state import Detached, Steady
from elastream.model.errors import AlreadyAttachedError, ElastreamError
from elastream.simulation.cluster import ClusterSettings, SimulatedCluster
from elastream.simulation.workload import even_workload

POLICY = Policy(max_executors=4, patience=2, smoothing_s=0.1, planner="single-step")
BUSY = 1900.0
PATIENCE_S = 30.0
"""How long a test waits for a thread that must come before it fails."""


def inline(job: Callable[[], None]) -> None:
    job()


class Bench:
    """A controller on a simulated cluster and what it logged."""

    def __init__(self, cluster: SimulatedCluster | None = None, *, query: str = "run") -> None:
        workload = even_workload(8, lambda _: BUSY)
        self.cluster = cluster or SimulatedCluster(workload, ClusterSettings(executors=2))
        self.decisions: list[Decision] = []
        self.controller = Controller(
            self.cluster,
            self.cluster,
            self.cluster,
            POLICY,
            self.decisions.append,
            query=query,
            background=inline,
        )

    @property
    def kinds(self) -> list[str]:
        return [decision.kind for decision in self.decisions]

    def batches(self, number: int) -> None:
        for _ in range(number):
            self.cluster.run_batch()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.controller.detach()


def test_a_query_scales_out_by_itself(bench: Bench) -> None:
    bench.controller.start()
    bench.batches(12)
    assert len(bench.cluster.executors()) == 3
    assert len(set(bench.cluster.where().values())) == 3
    assert bench.kinds[0] == "attach"
    assert "done" in bench.kinds


def test_a_second_controller_on_the_same_query_is_refused(bench: Bench) -> None:
    bench.controller.start()
    second = Bench(bench.cluster)
    with pytest.raises(AlreadyAttachedError, match="query run has a controller already"):
        second.controller.start()
    assert second.decisions == []
    Bench(bench.cluster, query="another").controller.start().detach()


def test_a_query_can_be_attached_to_again_after_detaching(bench: Bench) -> None:
    bench.controller.start()
    bench.controller.detach()
    second = Bench(bench.cluster)
    second.controller.start()
    second.controller.detach()


def test_a_controller_starts_once(bench: Bench) -> None:
    bench.controller.start()
    with pytest.raises(AlreadyAttachedError):
        bench.controller.start()
    bench.controller.detach()
    with pytest.raises(AlreadyAttachedError):
        bench.controller.start()


def test_a_start_that_fails_leaves_the_query_free() -> None:
    class Broken(SimulatedCluster):
        def executors(self) -> tuple[Executor, ...]:
            raise ElastreamError("no session")

    workload = even_workload(4, lambda _: 1.0)
    with pytest.raises(ElastreamError, match="no session"):
        Bench(Broken(workload)).controller.start()
    Bench().controller.start().detach()


def test_detaching_leaves_the_query_running(bench: Bench) -> None:
    with bench.controller:
        bench.batches(2)
    before = len(bench.decisions)
    bench.batches(5)
    assert bench.kinds[-1] == "detach"
    assert len(bench.decisions) == before
    assert isinstance(bench.controller.state.phase, Detached)
    bench.controller.detach()
    assert len(bench.decisions) == before


def test_the_state_is_unknown_before_the_start(bench: Bench) -> None:
    with pytest.raises(ElastreamError, match="not been started"):
        _ = bench.controller.state


def test_requests_reach_the_loop(bench: Bench) -> None:
    bench.controller.start()
    bench.batches(1)
    bench.controller.move({task(0): "1"})
    bench.controller.abandon("no")
    bench.controller.scale_to(4)
    assert bench.kinds[-6:] == ["hold", "move", "abandon", "scale-out", "wait", "plan"]


def test_what_the_runtime_cannot_do_becomes_a_decision() -> None:
    class Refusing(SimulatedCluster):
        def grow(self, total: int, *, timeout_s: float) -> tuple[Executor, ...]:
            raise ValueError(f"no {total}\nwithin {timeout_s:g}")

    workload = even_workload(8, lambda _: BUSY)
    bench = Bench(Refusing(workload, ClusterSettings(executors=2)))
    with bench.controller:
        bench.batches(4)
        assert isinstance(bench.controller.state.phase, Steady)
    assert any("executors failed: ValueError: no 3 within 60" in d.reason for d in bench.decisions)


def test_a_door_that_does_not_open_does_not_reach_the_query() -> None:
    class Shut(SimulatedCluster):
        def place(self, wanted: Mapping[TaskId, str]) -> None:
            raise ElastreamError(f"{len(wanted)} moves, and the door is shut")

    workload = even_workload(8, lambda _: BUSY)
    bench = Bench(Shut(workload, ClusterSettings(executors=2)))
    with bench.controller:
        bench.batches(20)
    assert any("the door is shut" in d.reason for d in bench.decisions)
    assert "not moved in 5 tries" in next(d.reason for d in bench.decisions if d.kind == "abandon")


def test_a_log_that_fails_is_told_once_and_the_loop_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(_: Decision) -> None:
        raise OSError("disk full")

    cluster = SimulatedCluster(even_workload(8, lambda _: BUSY), ClusterSettings(executors=2))
    controller = Controller(
        cluster, cluster, cluster, POLICY, full, query="full", background=inline
    )
    with caplog.at_level(logging.ERROR), controller:
        for _ in range(12):
            cluster.run_batch()
    assert [r.getMessage() for r in caplog.records] == [
        "decisions are no longer logged: OSError: disk full"
    ]
    assert len(cluster.executors()) == 3


def test_a_fault_of_the_loop_detaches_it_and_the_query_runs_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def faulty(*_: object) -> None:
        raise KeyError("a fault")

    bench.controller.start()
    bench.batches(1)
    monkeypatch.setattr("elastream.control.driver.step", faulty)
    with caplog.at_level(logging.ERROR):
        bench.batches(3)
    monkeypatch.undo()
    assert len(caplog.records) == 1
    assert "the query runs on" in caplog.text
    Bench(bench.cluster).controller.start().detach()


def test_a_batch_whose_executors_cannot_be_told_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Forgetful(SimulatedCluster):
        sane = True

        def executors(self) -> tuple[Executor, ...]:
            if not self.sane:
                raise KeyError("executors")
            return super().executors()

    cluster = Forgetful(even_workload(8, lambda _: BUSY), ClusterSettings(executors=2))
    bench = Bench(cluster)
    with caplog.at_level(logging.WARNING), bench.controller:
        cluster.sane = False
        bench.batches(1)
        cluster.sane = True
        bench.batches(1)
    assert [r.getMessage() for r in caplog.records] == [
        "batch 0 is passed over: KeyError: 'executors'"
    ]
    assert [d.batch for d in bench.decisions if d.kind == "hold"] == [1]


class SlowPool(SimulatedCluster):
    """Growing takes until the test lets it end."""

    def __init__(self) -> None:
        super().__init__(even_workload(8, lambda _: BUSY), ClusterSettings(executors=2))
        self.asked, self.may_end = threading.Event(), threading.Event()
        self.warmed = threading.Event()

    def grow(self, total: int, *, timeout_s: float) -> tuple[Executor, ...]:
        self.asked.set()
        assert self.may_end.wait(PATIENCE_S)
        return super().grow(total, timeout_s=timeout_s)

    def warm(self, ids: Sequence[str]) -> None:
        super().warm(ids)
        self.warmed.set()


def test_batches_pass_while_executors_are_waited_for() -> None:
    cluster = SlowPool()
    decisions: list[Decision] = []
    controller = Controller(cluster, cluster, cluster, POLICY, decisions.append, query="slow")
    with controller:
        for _ in range(3):
            cluster.run_batch()
        assert cluster.asked.wait(PATIENCE_S)
        for _ in range(3):
            cluster.run_batch()
        assert [d.kind for d in decisions[-3:]] == ["wait"] * 3
        cluster.may_end.set()
        assert cluster.warmed.wait(PATIENCE_S)
    assert len(cluster.executors()) == 3


def test_an_answer_after_detaching_changes_nothing() -> None:
    cluster = SlowPool()
    decisions: list[Decision] = []
    controller = Controller(cluster, cluster, cluster, POLICY, decisions.append, query="late")
    controller.start()
    for _ in range(3):
        cluster.run_batch()
    assert cluster.asked.wait(PATIENCE_S)
    controller.detach()
    cluster.may_end.set()
    assert decisions[-1].kind == "detach"
    assert not cluster.warmed.wait(0.05)


def test_a_worker_runs_jobs_in_order_until_it_is_closed() -> None:
    done: list[int] = []
    last = threading.Event()
    worker = Worker("test")
    for number in range(5):
        worker(lambda number=number: done.append(number))  # type: ignore[misc]
    worker(last.set)
    worker.close()
    worker(lambda: done.append(99))
    assert last.wait(PATIENCE_S)
    assert done == [0, 1, 2, 3, 4]
