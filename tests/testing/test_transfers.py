"""State that travels between executors of limited bandwidth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.core.decisions import Decision
from elastream.core.policy import Movement, Policy
from elastream.core.ports import Ticket
from elastream.goals.by_hand import ByHand
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.observation import BatchObservation, TaskId
from elastream.model.plan import step_plan
from elastream.placement.transfer.forecast import forecast
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedTask,
    Workload,
    even_workload,
    simulated,
)
from elastream.testing.workload import in_phases_s
from elastream_lab.studies.transfer.fair_shares import fairly_shared_s

MIB = 1 << 20


def task(partition: int) -> TaskId:
    return TaskId("query", 0, partition)


def of_sizes(sizes: list[int], executors: int, bytes_per_s: float | None) -> SimulatedCluster:
    tasks = tuple(SimulatedTask(0, j, 1 / len(sizes), 1.0, size) for j, size in enumerate(sizes))
    return SimulatedCluster(
        Workload(tasks, lambda _: 1000.0),
        ClusterSettings(executors=executors, bytes_per_s=bytes_per_s),
    )


def batch_of(cluster: SimulatedCluster) -> BatchObservation:
    found = cluster.run_batch()
    assert found is not None
    return found


def waited_ms(cluster: SimulatedCluster, asked: Callable[[Mapping[TaskId, str]], bool]) -> float:
    """Return what the first batch that ran as asked took in addition to its tasks.

    The batch that was under way is not it.
    """
    batches = iter(lambda: batch_of(cluster), None)
    batch = next(b for b in batches if asked({each.task: each.executor for each in b.tasks}))
    busy: Counter[str] = Counter()
    for each in batch.tasks:
        busy[each.executor] += each.run_ms  # type: ignore[assignment]
    return batch.duration_ms - max(busy.values())


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3)), min_size=4, max_size=10),
    st.integers(10**6, 10**7),
)
@settings(max_examples=100)
def test_a_batch_is_longer_by_what_the_forecast_of_its_moves_takes(
    moves: list[tuple[int, int]], bytes_per_s: int
) -> None:
    sizes = [size for size, _ in moves]
    wanted = {task(j): str(node) for j, (_, node) in enumerate(moves)}
    cluster = of_sizes(sizes, executors=4, bytes_per_s=bytes_per_s)
    cluster.run_batch()
    at_first = [int(cluster.where()[task(j)]) for j in range(len(sizes))]
    cluster.place("query", wanted, ticket=Ticket())
    problem = StepProblem.of([1] * len(sizes), sizes, at_first, nodes=4, tau=4)
    plan = step_plan(problem, tuple(node for _, node in moves))
    expected_ms = 100 + 1000 * forecast(problem, plan, bytes_per_s).seconds
    assert waited_ms(cluster, lambda where: where == wanted) == pytest.approx(expected_ms)


def test_a_batch_whose_state_is_sent_at_once_is_longer_by_what_shared_links_take() -> None:
    sizes = [4, 5, 3, 3, 2, 1]  # from 0, 0, 1, 1, 2, 2 to 3 and 4 in turn
    tasks = tuple(SimulatedTask(0, j, 1 / 6, 0.0, MIB * size) for j, size in enumerate(sizes))
    waits = []
    for transfer_s in (in_phases_s, fairly_shared_s):
        cluster = SimulatedCluster(
            Workload(tasks, lambda _: 1000.0),
            ClusterSettings(executors=5, bytes_per_s=MIB, transfer_s=transfer_s, load_ms_per_mib=0),
        )
        origin = {task(j): str(j // 2) for j in range(6)}
        wanted = {task(j): str(3 + j % 2) for j in range(6)}
        cluster.place("query", origin, ticket=Ticket())
        waited_ms(cluster, origin.__eq__)
        cluster.place("query", wanted, ticket=Ticket())
        waits.append(waited_ms(cluster, wanted.__eq__))
    assert waits == [pytest.approx(100 + 9000), pytest.approx(100 + 10_500)]


def test_a_batch_without_moves_is_no_longer() -> None:
    cluster = of_sizes([MIB] * 4, executors=2, bytes_per_s=MIB)
    first = batch_of(cluster)
    assert first.duration_ms > 2000, "each executor gets two states of 1 MiB from the checkpoint"
    cluster.advance(60)
    rows = batch_of(cluster).rows
    assert batch_of(cluster).duration_ms == pytest.approx(100 + rows / 2, abs=2)


def test_state_of_a_dead_executor_waits_for_who_receives_it_alone() -> None:
    cluster = of_sizes([3 * MIB] * 4, executors=4, bytes_per_s=MIB)
    cluster.run_batch()
    cluster.kill("0")
    assert waited_ms(cluster, lambda where: "0" not in where.values()) == 100 + 3000


def test_the_decision_log_shows_what_a_slow_link_costs() -> None:
    worst = []
    for bytes_per_s in (None, 100 * MIB, 10 * MIB):
        cluster = SimulatedCluster(
            even_workload(8, lambda _: 100.0, state_bytes=50 * MIB),
            ClusterSettings(executors=2, bytes_per_s=bytes_per_s, load_ms_per_mib=0),
        )
        decisions: list[Decision] = []
        policy = Policy(max_executors=4, movement=Movement(moves_per_batch=1), goal=ByHand())
        with simulated(cluster, policy, log=decisions.append) as loop:
            cluster.advance(120)
            loop.scale_to(4)
            cluster.advance(120)
        done = next(decision for decision in decisions if decision.kind == "done")
        worst.append(done.figures["worst_batch_ms"])
    free, fast, slow = worst
    assert fast - free == pytest.approx(500, abs=60)
    assert slow - free == pytest.approx(5000, abs=600)


@pytest.mark.parametrize("bytes_per_s", [0, -1, float("nan")])
def test_a_bandwidth_is_positive(bytes_per_s: float) -> None:
    with pytest.raises(ProblemError, match=r"^bytes_per_s: "):
        ClusterSettings(bytes_per_s=bytes_per_s)
