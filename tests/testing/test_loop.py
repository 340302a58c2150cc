"""What the simulated loop shows a test."""

from __future__ import annotations

from math import cos, pi
from pathlib import Path

import pytest

from elastream import Decision, Policy, Timeouts, Utilisation, read_decisions
from elastream.replication import Replication
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    even_workload,
    rate_steps,
    simulated,
)

GROWING = even_workload(8, rate_steps({0: 1000, 20: 1900}))
POLICY = Policy(max_executors=4, patience=2, timeouts=Timeouts(smoothing_s=1))


def test_decisions_are_kept_and_written_to_a_log_as_well(tmp_path: Path) -> None:
    decisions: list[Decision] = []
    for log in (decisions.append, tmp_path / "decisions.jsonl", None):
        cluster = SimulatedCluster(GROWING)
        with simulated(cluster, POLICY, log=log) as loop:
            cluster.advance(60)
        assert loop.decisions[0].kind == "attach"
        assert loop.decisions[-1].kind == "detach"
        decisions = decisions or loop.decisions
        assert loop.decisions == decisions
    assert list(read_decisions(tmp_path / "decisions.jsonl")) == decisions


def test_changes_and_kinds_are_in_order() -> None:
    cluster = SimulatedCluster(GROWING)
    with simulated(cluster, POLICY) as loop:
        cluster.advance(60)
        loop.scale_to(2)
        cluster.advance(20)
    assert loop.changes == ["scale-out", "scale-in"]
    assert [decision.kind for decision in loop.of("done", "plan")] == ["plan", "done"] * 2
    assert loop.of("lost") == []


def test_the_story_leaves_out_what_is_quiet() -> None:
    cluster = SimulatedCluster(GROWING)
    with simulated(cluster, POLICY) as loop:
        cluster.advance(60)
    lines = loop.story.splitlines()
    assert len(lines) == len(loop.decisions) - len(loop.of("hold", "wait"))
    assert lines[0].startswith("     0 s  2 executors, attach: attached, acts")
    assert "query, 2 executors, scale-out: scale-out to 3" in loop.story


def test_time_passes_until_something_is_decided_anew() -> None:
    cluster = SimulatedCluster(GROWING)
    with simulated(cluster, POLICY) as loop:
        first = loop.run_until("done", most_s=60)
        assert loop.of("done") == [first]
        assert (first.at_ms or 0) <= cluster.now_ms <= (first.at_ms or 0) + 1000
        with pytest.raises(AssertionError, match=r"no done within 5 s:\n +0 s  2 executors, att"):
            loop.run_until("done", most_s=5)


def test_what_the_goal_sees_can_be_looked_at() -> None:
    cluster = SimulatedCluster(GROWING)
    with simulated(cluster, POLICY) as loop:
        cluster.advance(15)
        load = loop.observed.queries["query"].load
        assert load.work == pytest.approx(1.0, abs=0.05)
        assert [executor.id for executor in loop.observed.executors] == ["0", "1"]


def test_hosts_are_probed_where_the_cluster_says_how_far_they_are() -> None:
    def asked(settings: ClusterSettings) -> bool:
        cluster = SimulatedCluster(GROWING, settings)
        with simulated(cluster, Policy(max_executors=4, goal=Replication(response_ms=3000))) as one:
            cluster.advance(120)
        return any("no way to probe" in decision.reason for decision in one.decisions)

    hosts = ("a", "b")
    assert asked(ClusterSettings(hosts=hosts))
    assert not asked(ClusterSettings(hosts=hosts, round_trips_ms={("a", "b"): 4.0}))


def test_executors_take_as_long_to_come_as_the_settings_say() -> None:
    cluster = SimulatedCluster(GROWING, ClusterSettings(pool_s=15.0))
    with simulated(cluster, POLICY) as loop:
        asked = loop.run_until("scale-out")
        cluster.advance(14)
        assert len(cluster.executors()) == 2
        done = loop.run_until("done")
    assert len(cluster.executors()) == 3
    assert (done.at_ms or 0) - (asked.at_ms or 0) >= 2 * 15_000


def test_what_was_asked_for_and_given_up_does_not_come_later() -> None:
    cluster = SimulatedCluster(GROWING, ClusterSettings(pool_s=15.0))
    with simulated(cluster, POLICY) as loop:
        loop.run_until("scale-out")
        loop.abandon("changed our minds")
        cluster.advance(30)
    assert len(cluster.executors()) == 2


def test_load_from_before_the_start_is_known_to_a_goal_that_looks_ahead() -> None:
    def wave(second: float) -> float:
        return 1500 - 1000 * cos(second / 43_200 * pi)

    past = [(60_000 * minute, wave(60 * minute) / 1000) for minute in range(-3 * 1440, 0)]
    policy = Policy(max_executors=4, goal=Utilisation(look_ahead_s=600))
    cluster = SimulatedCluster(even_workload(8, wave, trigger_ms=10_000), ClusterSettings())
    with simulated(cluster, policy, past=past) as loop:
        cluster.advance(30)
        memory = loop.state.memory
    assert memory.scored > 100
    assert memory.day.usual[48] == pytest.approx(2.5, abs=0.05)
