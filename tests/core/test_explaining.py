"""What the loop would do now and why, in words."""

from __future__ import annotations

from elastream import ByHand, Movement, Policy
from elastream.core.explaining import explained
from elastream.testing import SimulatedCluster, even_workload, rate_steps, simulated


def test_a_loop_at_rest_says_what_would_make_it_act_and_then_it_does() -> None:
    rate = {0.0: 1000.0}
    cluster = SimulatedCluster(even_workload(24, lambda _: rate[0.0]))
    with simulated(cluster, Policy(max_executors=8)) as loop:
        cluster.advance(60)
        said = explained(loop.state)
        assert said.splitlines()[0] == (
            "It acts, between 1 and 8 executors; its goal: utilisation 0.7. There are 2 executors."
        )
        assert "It would change nothing now: utilisation 0.5" in said
        grows = next(line for line in said.splitlines() if "grows" in line)
        assert grows.endswith("it wants a scale-out to 3.")
        percent = int(grows.split("about ")[1].split("%")[0])
        rate[0.0] = 1000 * (1 + (percent - 4) / 100)
        cluster.advance(100)
        assert loop.changes == []
        rate[0.0] = 1000 * (1 + (percent + 2) / 100)
        cluster.advance(100)
        assert loop.changes == ["scale-out"]


def test_a_need_that_is_held_back_is_reported_with_what_it_waits_for() -> None:
    cluster = SimulatedCluster(even_workload(24, rate_steps({0: 1000, 10: 1900})))
    with simulated(cluster, Policy(max_executors=3, patience=30)) as loop:
        cluster.advance(30)
        assert "It wants a scale-out to 3 executors and holds it back: asked for in" in explained(
            loop.state
        )


def test_a_change_under_way_and_a_loop_that_let_go_say_so() -> None:
    cluster = SimulatedCluster(even_workload(24, 1000.0))
    with simulated(
        cluster, Policy(max_executors=8, goal=ByHand(), movement=Movement(moves_per_batch=1))
    ) as loop:
        assert "Not known: no batch of query has been seen yet." in explained(loop.state)
        cluster.advance(5)
        assert "It would change nothing now" in explained(loop.state)
        loop.scale_to(4)
        cluster.advance(2)
        assert "Under way (moving): scale-out from 2 to 4 executors" in explained(loop.state)
    assert explained(loop.state).startswith("It has let go")
