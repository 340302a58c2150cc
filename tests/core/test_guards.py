"""What holds a change back, what a change must reach, and what it brought."""

from dataclasses import replace
from typing import Any

import pytest

from elastream.core.application import Observed
from elastream.core.decisions import Decision
from elastream.core.goal import Purpose, Wanted
from elastream.core.policy import Policy
from elastream.goals.by_hand import ByHand
from elastream.goals.utilisation import Utilisation
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedTask,
    Workload,
    even_workload,
    rate_steps,
    simulated,
)

BY_HAND = Policy(max_executors=40, goal=ByHand(), cooldown_s=1)
AUTOMATIC = Policy(max_executors=40, cooldown_s=20)


def scaled(executors: int, to: int, tasks: int, policy: Policy = BY_HAND) -> list[int]:
    """Return how many tasks each executor holds after a request."""
    cluster = SimulatedCluster(
        even_workload(tasks, 10.0 * tasks), ClusterSettings(executors=executors)
    )
    with simulated(cluster, policy) as loop:
        cluster.run_batches(5)
        loop.scale_to(to)
        cluster.run_batches(60)
    held = list(cluster.where().values())
    return sorted(held.count(str(each.id)) for each in cluster.executors())


def done(decisions: list[Decision]) -> Decision:
    return next(each for each in decisions if each.kind == "done")


@pytest.mark.parametrize(("executors", "to"), [(6, 7), (10, 12), (20, 24), (1, 2)])
def test_executors_that_were_asked_for_carry_at_least_half_of_their_share(
    executors: int, to: int
) -> None:
    held = scaled(executors, to, 10 * executors)
    assert len(held) == to
    assert held[0] >= 10 * executors / to / 2


@pytest.mark.parametrize(
    ("executors", "first", "then"), [(5, 3700, 4050), (6, 4400, 4850), (20, 15000, 16200)]
)
def test_a_scale_out_brings_the_busiest_below_the_mark(
    executors: int, first: float, then: float
) -> None:
    workload = even_workload(12 * executors, rate_steps({0: first, 60: then}))
    cluster = SimulatedCluster(workload, ClusterSettings(executors=executors))
    decisions: list[Decision] = []
    policy = replace(AUTOMATIC, min_executors=executors)
    with simulated(cluster, policy, log=decisions.append):
        cluster.advance(300)
    assert len(cluster.executors()) > executors
    assert set(cluster.where().values()) == {each.id for each in cluster.executors()}
    last = [each for each in decisions if each.kind == "hold"][-1]
    assert last.figures["busiest"] <= 0.8
    plan = next(each for each in decisions if each.kind == "plan")
    assert "reaches busiest <= 0.80" in plan.reason
    assert plan.figures["reaches_purpose"] == 1


def test_where_one_task_is_too_heavy_the_plan_says_so() -> None:
    tasks = (
        SimulatedTask(0, 0, 0.9, 1.0, 100),
        *(SimulatedTask(0, j, 0.02, 1.0, 100) for j in range(1, 6)),
    )
    cluster = SimulatedCluster(Workload(tasks, rate_steps({0: 1000})), ClusterSettings(executors=1))
    decisions: list[Decision] = []
    with simulated(cluster, AUTOMATIC, log=decisions.append):
        cluster.advance(200)
    plan = next(each for each in decisions if each.kind == "plan")
    assert "does not reach busiest <= 0.80, but 0." in plan.reason
    assert "the heaviest tasks alone make that much" in plan.reason
    assert len(cluster.executors()) == 2


def test_a_scale_in_empties_whole_hosts_where_that_moves_no_more_state() -> None:
    settings = ClusterSettings(executors=6, hosts=("a", "b"))
    cluster = SimulatedCluster(even_workload(24, 100.0), settings)
    with simulated(cluster, BY_HAND) as loop:
        cluster.run_batches(5)
        loop.scale_to(3)
        cluster.run_batches(40)
    assert [each.host for each in cluster.executors()] == ["a"] * 3


def test_no_executor_gets_more_state_than_it_may_hold() -> None:
    policy = replace(AUTOMATIC, state_bytes_per_executor=4 << 20)
    workload = even_workload(12, 100.0, state_bytes=1 << 20)
    cluster = SimulatedCluster(workload, ClusterSettings(executors=5))
    with simulated(cluster, policy):
        cluster.advance(120)
    held = list(cluster.where().values())
    assert sorted(map(held.count, set(held))) == [4, 4, 4], "idle enough for one executor"


def test_a_change_is_held_against_its_prediction() -> None:
    cluster = SimulatedCluster(even_workload(12, 800.0), ClusterSettings(executors=2))
    decisions: list[Decision] = []
    with simulated(cluster, BY_HAND, log=decisions.append) as loop:
        cluster.run_batches(30)
        loop.scale_to(4)
        cluster.run_batches(40)
    figures = done(decisions).figures
    assert figures["predicted_batch_ms"]["query"] == pytest.approx(300, rel=0.1)
    assert figures["measured_batch_ms"]["query"] == pytest.approx(
        figures["predicted_batch_ms"]["query"], rel=0.15
    )
    assert figures["measured_busiest"] == pytest.approx(figures["predicted_busiest"], rel=0.15)
    assert "were predicted" in done(decisions).reason


@pytest.mark.parametrize(("executors", "to"), [(2, 4), (4, 2), (2, 3)])
def test_batches_in_which_code_is_compiled_or_executors_start_spoil_no_prediction(
    executors: int, to: int
) -> None:
    tasks = tuple(SimulatedTask(o, j, 1 / 12, 20.0, 1000) for o in (0, 1) for j in range(12))
    load = Workload(tasks, lambda _: 1e6, trigger_ms=1.0, overhead_ms=800.0, most_rows=120)
    cluster = SimulatedCluster(load, ClusterSettings(executors=executors, pool_s=8.0))
    with simulated(cluster, BY_HAND) as loop:
        for seconds in (8, 3, 1):
            cluster.hold_up("query", seconds)
            cluster.run_batches(1)
        cluster.run_batches(6)
        loop.scale_to(to)
        cluster.hold_up("query", 2)
        cluster.run_batches(25)
    figures = done(loop.decisions).figures
    assert figures["measured_batch_ms"] == pytest.approx(figures["predicted_batch_ms"], rel=0.01)
    assert figures["measured_busiest"] == pytest.approx(figures["predicted_busiest"], rel=0.02)


def test_a_change_in_which_nothing_moved_is_logged_at_once() -> None:
    cluster = SimulatedCluster(even_workload(4, 100.0), ClusterSettings(executors=4))
    decisions: list[Decision] = []
    with simulated(cluster, BY_HAND, log=decisions.append) as loop:
        cluster.run_batches(5)
        loop.scale_to(4)
        cluster.run_batches(1)
    assert "predicted_batch_ms" not in done(decisions).figures


def test_one_change_takes_no_larger_step_than_allowed() -> None:
    cluster = SimulatedCluster(
        even_workload(64, rate_steps({0: 1200, 30: 2600})), ClusterSettings(executors=2)
    )
    decisions: list[Decision] = []
    policy = replace(AUTOMATIC, largest_step=1)
    with simulated(cluster, policy, log=decisions.append):
        cluster.advance(600)
    sizes = [each.figures["executors_wanted"] for each in decisions if each.kind == "done"]
    assert sizes[:2] == [3, 4]
    reasons = [each.reason for each in decisions if each.kind == "scale-out"]
    assert any("at most 1 at a time towards" in reason for reason in reasons)


def test_in_an_excluded_period_a_goal_changes_nothing_but_a_person_may() -> None:
    cluster = SimulatedCluster(even_workload(16, 3000.0), ClusterSettings(executors=1))
    decisions: list[Decision] = []
    policy = replace(AUTOMATIC, excluded_periods=("00:00-12:00", "12:00-24:00"))
    with simulated(cluster, policy, log=decisions.append) as loop:
        cluster.advance(60)
        assert len(cluster.executors()) == 1
        assert any("is excluded; scale-out to" in each.reason for each in decisions)
        loop.scale_to(3)
        cluster.advance(30)
    assert len(cluster.executors()) == 3


def test_a_direction_that_does_not_help_is_not_tried_again_until_something_changes() -> None:
    """The simulated query is slowed down by as much as its executors would speed it up."""
    cluster = SimulatedCluster(even_workload(64, 820.0), ClusterSettings(executors=1))
    decisions: list[Decision] = []
    policy = Policy(max_executors=40, cooldown_s=5, patience=2, goal=Utilisation(), largest_step=1)
    with simulated(cluster, policy, log=decisions.append):
        for _ in range(130):
            for executor in cluster.executors():
                cluster.set_speed(executor.id, 1 / len(cluster.executors()))
            cluster.advance(5)
        held = [each for each in decisions if each.kind == "hold"][-1]
        assert "a further scale-out has not helped: not again until load" in held.reason
        before = len(cluster.executors())
        assert before < 20
        cluster.advance(30)
        assert len(cluster.executors()) == before


def test_a_rebalance_that_finds_nothing_to_move_is_not_tried_again() -> None:
    class Hopeful(ByHand):
        """Wants an even spread, whatever it is like."""

        def wanted(self, memory: Any, observed: Observed) -> tuple[Any, Wanted, tuple[()]]:
            del observed
            return memory, Wanted("rebalance", 2, "for once", purpose=Purpose(0.01)), ()

    cluster = SimulatedCluster(even_workload(4, 200.0), ClusterSettings(executors=2))
    decisions: list[Decision] = []
    policy = Policy(max_executors=2, goal=Hopeful(), cooldown_s=1, patience=10)
    with simulated(cluster, policy, log=decisions.append):
        cluster.advance(60)
    plans = [each for each in decisions if each.kind == "plan"]
    assert len(plans) == 1
    assert "does not reach busiest <= 0.01" in plans[0].reason
    assert "a further rebalance has not helped" in decisions[-2].reason


def test_what_is_usual_is_measured_anew_after_a_change() -> None:
    cluster = SimulatedCluster(even_workload(12, 800.0), ClusterSettings(executors=1))
    with simulated(cluster, BY_HAND) as loop:
        cluster.run_batches(20)
        before = loop.state.queries["query"].usual_ms
        loop.scale_to(4)
        cluster.run_batches(10)
        after = loop.state.queries["query"].usual_ms
    assert before == pytest.approx(900, rel=0.1)
    assert after == pytest.approx(300, rel=0.1)
