"""Metrics, read back with Prometheus' own parser and held against the loop's own state."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import prometheus_client
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.page.watching import Watched, families, values

from elastream import ByHand, Movement, Policy, Timeouts
from elastream.core.decisions import Decision
from elastream.core.state import LoopState
from elastream.page.counts import Counts
from elastream.page.metrics import metrics_text
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, rate_steps

POLICY = Policy(
    max_executors=4,
    patience=2,
    cooldown_s=5,
    timeouts=Timeouts(smoothing_s=1),
    movement=Movement(moves_per_batch=2),
)
BY_HAND = replace(POLICY, goal=ByHand())
HOSTS = ("north", "south")


def cluster_of(*rates: float, **others: Any) -> SimulatedCluster:
    workloads = [even_workload(8, rate, name=f"q{j}") for j, rate in enumerate(rates)]
    return SimulatedCluster(workloads, ClusterSettings(hosts=HOSTS, **others))


def labelled(reports: dict[tuple[str, ...], float], name: str) -> dict[tuple[str, ...], float]:
    """The values of one metric by their labels."""
    return {tuple(labels): value for (each, *labels), value in reports.items() if each == name}


def sizes_of(state: LoopState) -> tuple[Counter[str], Counter[str]]:
    """How many tasks each executor has and how large their state is."""
    number: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for task, load in state.observed.tasks():
        number[state.observed.where(task)] += 1
        size[state.observed.where(task)] += round(load.state_bytes)
    return number, size


# The status is reported


def test_executors_and_what_they_hold_are_those_of_the_loop() -> None:
    cluster, watched = cluster_of(700, 500), Watched()
    with watched.loop(cluster, POLICY) as loop:
        cluster.advance(30)
        report, state = watched.values, loop.state
    assert report["elastream_executors",] == report["elastream_executors_wanted",] == 2
    assert (report["elastream_executors_min",], report["elastream_executors_max",]) == (1, 4)
    assert report["elastream_spare_executors",] == report["elastream_homeless_partitions",] == 0
    held, size = sizes_of(state)
    who = {each.id: (each.id, each.host) for each in state.all_executors}
    partitions = labelled(report, "elastream_executor_partitions")
    assert partitions == {who[name]: number for name, number in held.items()}
    assert sum(partitions.values()) == 16
    assert labelled(report, "elastream_executor_state_bytes") == {
        who[name]: number for name, number in size.items()
    }
    assert labelled(report, "elastream_partitions") == {("q0",): 8, ("q1",): 8}
    assert sum(labelled(report, "elastream_state_bytes").values()) == sum(size.values())


def test_utilisation_stands_next_to_its_marks_and_that_of_each_executor() -> None:
    cluster, watched = cluster_of(1400), Watched()
    with watched.loop(cluster, POLICY) as loop:
        cluster.advance(30)
        report, goal = watched.values, loop.state.policy.goal
        mean = goal.utilisation(loop.observed)
    assert goal.marks is not None
    assert mean is not None
    assert report["elastream_utilisation_ratio",] == pytest.approx(mean, abs=0.001)
    for name, mark in (("target", goal.marks.target), ("low", goal.marks.low)):
        assert report[f"elastream_utilisation_{name}_ratio",] == pytest.approx(mark, abs=0.001)
    assert report["elastream_utilisation_high_ratio",] == pytest.approx(goal.marks.high, abs=0.001)
    each = labelled(report, "elastream_executor_utilisation_ratio")
    assert set(each) == {("0", "north"), ("1", "south")}
    assert sum(each.values()) / 2 == pytest.approx(mean, abs=0.01)


def test_rows_and_batches_of_a_query_are_those_of_its_stream() -> None:
    cluster, watched = cluster_of(1000), Watched()
    with watched.loop(cluster, BY_HAND):
        batches = cluster.advance(60)
    report = watched.values
    assert report["elastream_rows_total", "q0"] == sum(batch.rows for batch in batches)
    assert report["elastream_batch_duration_seconds_count", "q0"] == len(batches)
    took_s = sum(batch.duration_ms for batch in batches) / 1000
    assert report["elastream_batch_duration_seconds_sum", "q0"] == pytest.approx(took_s, rel=1e-3)
    buckets = labelled(report, "elastream_batch_duration_seconds_bucket")
    for (bound, _), number in buckets.items():
        assert number == sum(round(batch.duration_ms) / 1000 <= float(bound) for batch in batches)


def test_a_query_reports_its_backlog_its_arrivals_and_its_trigger() -> None:
    cluster, watched = cluster_of(4000), Watched()
    with watched.loop(cluster, replace(POLICY, max_executors=2)) as loop:
        cluster.advance(60)
        reports, load = watched.values, loop.state.queries["q0"].load
    assert reports["elastream_backlog_rows", "q0"] == load.backlog
    assert reports["elastream_arriving_rows_per_second", "q0"] == pytest.approx(4000, rel=0.05)
    assert reports["elastream_trigger_interval_seconds", "q0"] == 1
    assert reports["elastream_query_idle", "q0"] == 0
    assert reports["elastream_demand_ratio",] > 1


def test_a_change_is_reported_while_it_is_under_way_and_when_it_has_ended() -> None:
    cluster, watched = cluster_of(1000, pool_s=20.0), Watched()
    with watched.loop(cluster, BY_HAND) as loop:
        cluster.advance(5)
        loop.scale_to(4)
        cluster.advance(10)
        report = watched.values
        assert (report["elastream_executors",], report["elastream_executors_wanted",]) == (2, 4)
        assert report["elastream_loop_phase", "growing"] == 1
        under_way = labelled(report, "elastream_change_under_way_seconds")
        assert under_way == {("scale-out",): pytest.approx(10, abs=1)}
        done, report = loop.run_until("done"), watched.values
    assert labelled(report, "elastream_change_under_way_seconds") == {}
    assert report["elastream_executors",] == report["elastream_executors_wanted",] == 4
    ended = ("elastream_change_duration_seconds_sum", "scale-out", "done")
    assert report[ended] == done.figures["seconds"]
    assert report["elastream_moved_bytes_total", "scale-out"] == done.figures["state_bytes_moved"]
    assert report["elastream_moved_partitions_total", "scale-out"] == done.figures["tasks_moved"]
    (plan,) = loop.of("plan")
    planned = [
        report[f"elastream_planned_{name}_total", "scale-out"]
        for name in ("bytes", "lower_bound_bytes")
    ]
    names = ("state_bytes_to_move", "state_bytes_lower_bound")
    assert planned == [plan.figures[name] for name in names]


def test_what_a_goal_wants_is_reported_where_it_may_only_advise() -> None:
    cluster, watched = cluster_of(2500), Watched()
    with watched.loop(cluster, replace(POLICY, advise_only=True)) as loop:
        cluster.advance(30)
        wished = [each.figures["wanted"] for each in loop.of("hold") if "wanted" in each.figures]
        report = watched.values
    assert (report["elastream_executors",], report["elastream_executors_wanted",]) == (
        2,
        wished[-1],
    )


def test_partitions_of_an_executor_that_is_lost_are_homeless() -> None:
    cluster, watched = cluster_of(1000), Watched()
    with watched.loop(cluster, replace(BY_HAND, advise_only=True)) as loop:
        cluster.advance(5)
        cluster.kill("1")
        reports, held = watched.values, sizes_of(loop.state)[0]
    assert reports["elastream_executors_lost_total",] == 1
    assert reports["elastream_homeless_partitions",] == held["1"] > 0
    assert labelled(reports, "elastream_executor_partitions") == {("0", "north"): held["0"]}


def test_copies_that_stand_by_are_reported_and_so_are_spares() -> None:
    cluster, watched = cluster_of(1000, copy_s=1.0), Watched()
    with watched.loop(cluster, replace(BY_HAND, standbys=1, spares=1)) as loop:
        cluster.advance(60)
        report, state = watched.values, loop.state
    there = state.standbys.there
    assert report["elastream_standby_partitions",] == len(there) > 0
    copied = sum(round(state.queries["q0"].load.tasks[task].state_bytes) for task in there)
    assert report["elastream_standby_bytes",] == copied
    assert sum(labelled(report, "elastream_executor_standby_bytes").values()) == copied
    assert (report["elastream_executors",], report["elastream_spare_executors",]) == (2, 1)
    assert report["elastream_executor_seconds_total",] == pytest.approx(state.executor_s, abs=3)
    spare_s = report["elastream_spare_executor_seconds_total",]
    assert 0 < spare_s == pytest.approx(state.spare_executor_s, abs=1)


# What is not known has no sample


def test_before_anything_is_seen_only_counters_have_samples() -> None:
    report = families(Counts(), None)
    assert {each.type for each in report.values() if each.samples} == {"counter", "histogram"}
    assert set(report) == set(families(*seen_after(30)))


def test_before_the_first_batch_no_one_knows_load_and_places() -> None:
    cluster, watched = cluster_of(1000), Watched()
    with watched.loop(cluster, POLICY):
        cluster.advance(0.5)
        report = {name for name, *_ in watched.values}
    assert {"elastream_executors", "elastream_utilisation_target_ratio"} <= report
    assert report.isdisjoint(
        {
            "elastream_utilisation_ratio",
            "elastream_executor_utilisation_ratio",
            "elastream_executor_partitions",
            "elastream_homeless_partitions",
            "elastream_backlog_rows",
            "elastream_demand_ratio",
        }
    )


def test_a_goal_without_marks_has_none() -> None:
    cluster, watched = cluster_of(1000), Watched()
    with watched.loop(cluster, BY_HAND):
        cluster.advance(5)
        report = {name for name, *_ in watched.values}
    assert not any(name.startswith("elastream_utilisation_target") for name in report)


def test_of_what_the_loop_has_let_go_nothing_is_known() -> None:
    counts, seen = seen_after(30)
    report = values(counts, seen)
    assert report["elastream_loop_attached",] == 0
    names = {name for name, *_ in report}
    assert names.isdisjoint(
        {"elastream_executors", "elastream_backlog_rows", "elastream_utilisation_ratio"}
    )
    assert {"elastream_rows_total", "elastream_executor_seconds_total"} <= names


def test_a_query_that_has_left_keeps_its_counters_and_nothing_else() -> None:
    cluster, watched = cluster_of(500, 500), Watched()
    with watched.loop(cluster, BY_HAND):
        cluster.advance(10)
        cluster.end_query("q1")
        cluster.advance(5)
        report = watched.values
    assert report["elastream_rows_total", "q1"] > 0
    assert ("elastream_backlog_rows", "q1") not in report


# Names, labels, texts


def seen_after(seconds: float, name: str = "q") -> tuple[Counts, dict[str, Any] | None]:
    """What is counted and seen of a query of this name after a while."""
    watched = Watched()
    cluster = SimulatedCluster(even_workload(4, 500, name=name))
    with watched.loop(cluster, POLICY):
        cluster.advance(seconds)
    return watched.counts, watched.seen


def test_names_and_units_are_as_prometheus_asks_for() -> None:
    for name, family in families(*seen_after(30)).items():
        assert name.startswith("elastream_")
        assert family.documentation.endswith(".")
        assert family.type in {"counter", "gauge", "histogram"}
        assert not {"ms", "s", "mb", "kb", "percent", "milliseconds"} & set(name.split("_"))
        labels = {label for sample in family.samples for label in sample.labels}
        assert labels <= {
            *("query", "executor", "host", "kind", "outcome", "le", "phase"),
            *("mode", "goal", "planner"),
        }
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
            assert sample.value == sample.value
            if name.endswith("_ratio") and name != "elastream_demand_ratio":
                assert 0 <= sample.value <= 2


SEEN: dict[str, Any] = {
    "at_ms": 1000,
    "loop": {"mode": "acts", "phase": "steady"},
    "executors": {"0": {"host": "h", "spare": False, "busy": 0.5}},
    "tasks": {},
}
FEWER = settings(max_examples=min(60, settings().max_examples))
"""Every example is written and parsed twice."""


@FEWER
@given(st.text())
def test_any_name_of_a_query_survives(name: str) -> None:
    counts = Counts()
    counts.take_batches([[name, 0, 0, 120, 7]])
    seen = {**SEEN, "queries": {name: {"backlog": 3, "idle": False}}}
    report = values(counts, seen)
    assert report["elastream_rows_total", name] == 7
    assert report["elastream_backlog_rows", name] == 3


def test_half_a_surrogate_pair_in_a_name_is_escaped() -> None:
    counts = Counts()
    counts.take_batches([["a\ud800", 0, 0, 120, 7]])
    assert values(counts, None)["elastream_rows_total", "a\\ud800"] == 7


odd: list[Any] = [
    None,
    True,
    1.5,
    -1,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "let go",
    "0",
    [],
    [0],
    {},
]
json_values = st.sampled_from([*odd, {"low": None, "high": "x"}])


def members(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), json_values)


@FEWER
@given(
    st.fixed_dictionaries(
        {
            "at_ms": json_values,
            "loop": members("mode", "phase", "marks", "utilisation", "executor_s", "unknown"),
            "executors": st.dictionaries(st.text(max_size=2), members("host", "busy", "spare")),
            "queries": st.dictionaries(st.text(max_size=2), members("backlog", "idle", "tasks")),
            "tasks": st.dictionaries(
                st.text(max_size=2),
                st.lists(json_values, min_size=3, max_size=3)
                | st.lists(json_values, min_size=5, max_size=5),
            ),
            "change": st.none() | members("kind", "executors", "asked_ms"),
        }
    )
)
def test_a_record_that_somebody_garbled_is_reported_as_far_as_it_can_be(
    seen: dict[str, Any],
) -> None:
    text, _ = metrics_text(Counts(), seen)
    assert b" NaN" not in text
    metrics_text(Counts(), seen, "application/openmetrics-text")


def test_counters_of_a_run_never_go_down() -> None:
    load = rate_steps({0: 1000, 30: 2500, 90: 700})
    cluster, watched = SimulatedCluster(even_workload(16, load)), Watched()
    before: dict[tuple[str, ...], float] = {}
    with watched.loop(cluster, POLICY):
        for _ in range(20):
            cluster.advance(10)
            report = watched.values
            fallen = {
                name
                for name, value in before.items()
                if name[0].endswith(("_total", "_bucket", "_count", "_sum"))
                and report.get(name, -1) < value
            }
            assert fallen == set()
            before = report
    assert sum(labelled(before, "elastream_change_duration_seconds_count").values()) >= 2


def test_a_failure_of_the_loop_is_reported() -> None:
    counts = Counts()
    counts.take_decision(
        Decision(0, None, "detach", "the loop failed", executors=2, figures={"failed": 1})
    )
    assert values(counts, None)["elastream_loop_failures_total",] == 1


def test_settings_of_the_loop_are_labels() -> None:
    cluster, watched = cluster_of(500), Watched()
    with watched.loop(cluster, POLICY) as loop:
        cluster.advance(5)
        policy, report = loop.policy, watched.values
    assert report["elastream_loop_info", policy.goal.name, "acts", policy.planner_name] == 1


# Whoever does not ask for metrics does not pay for them


def test_the_library_is_imported_without_that_of_prometheus() -> None:
    script = "import sys, elastream, elastream.cli.main, elastream.attachment, elastream.testing"
    found = "print('prometheus_client' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", f"{script}; {found}"], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"


def test_nothing_is_left_in_the_registry_that_all_share() -> None:
    before = set(prometheus_client.REGISTRY._names_to_collectors)
    metrics_text(*seen_after(5))
    assert set(prometheus_client.REGISTRY._names_to_collectors) == before
