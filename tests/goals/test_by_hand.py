from __future__ import annotations

from tests.core.builders import bounds, executors, load, observed

from elastream.core.goal import Wanted
from elastream.core.load import QueryLoad
from elastream.core.policy import Policy
from elastream.goals.by_hand import ByHand
from elastream.testing import SimulatedCluster, even_workload, simulated


def test_nothing_is_wanted_however_busy_it_is() -> None:
    goal = ByHand()
    busy = observed(load([0.9, 0.9], "ab"), executors("a", "b"))
    hold = Wanted("hold", 2, "only what is asked for by hand", 0.9)
    assert goal.wanted(goal.memory(), busy) == (None, hold, ())


def test_nothing_is_wanted_outside_the_bounds_either() -> None:
    unmeasured = observed(QueryLoad(), executors("a"), within=bounds(least=3))
    hold = Wanted("hold", 1, "only what is asked for by hand")
    assert ByHand().wanted(None, unmeasured) == (None, hold, ())


def test_tasks_are_placed_by_the_planner_of_the_policy() -> None:
    assert ByHand().planner(None, observed(load([0.9], "a"), executors("a")), 1) is None


def test_what_is_asked_for_is_carried_out() -> None:
    cluster = SimulatedCluster(even_workload(8, lambda _: 1900.0))
    with simulated(cluster, Policy(max_executors=4, goal=ByHand())) as controller:
        cluster.run_batches(10)
        assert len(cluster.executors()) == 2
        controller.scale_to(4)
        cluster.run_batches(10)
        assert len(set(cluster.where().values())) == 4
