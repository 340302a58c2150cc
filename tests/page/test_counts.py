"""Counts: added up from what a loop shows, live and from its log alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.page.watching import Watched, read

from elastream import ByHand, Movement, Policy, Timeouts
from elastream.core.decisions import Decision, Kind
from elastream.page.counts import MOST_QUERIES, Counted, Counts, Histogram, MoveCounts
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, rate_steps

POLICY = Policy(
    max_executors=4,
    patience=2,
    cooldown_s=5,
    timeouts=Timeouts(smoothing_s=1),
    movement=Movement(moves_per_batch=2),
)
BY_HAND = replace(POLICY, goal=ByHand())


def decision(kind: Kind, query: str | None = None, **figures: float) -> Decision:
    return Decision(0, None, kind, "why", executors=2, figures=figures, query=query)


def counted(*decisions: Decision) -> Counted:
    counts = Counts()
    for each in decisions:
        counts.take_decision(each)
    return counts.now


def ends(counted: Counted) -> dict[tuple[str, str], int]:
    """How many changes ended, of the kinds and outcomes of which any did."""
    return {how: sum(took.counts) for how, took in counted.changes.items() if sum(took.counts)}


# A loop that is watched


def test_every_batch_is_counted_with_its_rows_and_its_duration() -> None:
    workloads = [even_workload(8, 900, name="one"), even_workload(4, 300, name="two")]
    cluster, watched = SimulatedCluster(workloads), Watched()
    with watched.loop(cluster, POLICY):
        batches = cluster.advance(60)
    queries = watched.counts.now.queries
    assert set(queries) == {"one", "two"}
    for name, query in queries.items():
        own = [batch for batch in batches if batch.query == name]
        assert query.rows == sum(batch.rows for batch in own)
        assert sum(query.batch_s.counts) == len(own)
        assert abs(query.batch_s.total - sum(b.duration_ms for b in own) / 1000) < 0.001 * len(own)


def test_decisions_changes_and_what_they_moved_are_those_of_the_log() -> None:
    cluster = SimulatedCluster(even_workload(24, rate_steps({0: 1000, 40: 2500, 120: 900})))
    watched = Watched()
    with watched.loop(cluster, replace(POLICY, max_executors=8)) as loop:
        cluster.advance(300)
    now = watched.counts.now
    assert now.decisions == {kind: len(loop.of(kind)) for kind in get_args(Kind)}
    assert ends(now) == {
        (kind, "done"): loop.changes.count(kind) for kind in ("scale-out", "scale-in")
    }
    done, plans = loop.of("done"), loop.of("plan")
    took = [now.changes[kind, "done"].total for kind in ("scale-out", "scale-in")]
    assert sum(took) == sum(each.figures["seconds"] for each in done)
    moves = now.moves.values()
    assert sum(each.tasks for each in moves) == sum(d.figures["tasks_moved"] for d in done) > 0
    assert sum(each.state_bytes for each in moves) == sum(
        each.figures["state_bytes_moved"] for each in done
    )
    assert sum(each.planned_bytes for each in moves) == sum(
        each.figures["state_bytes_to_move"] for each in plans
    )
    for each in moves:
        assert 0 <= each.lower_bound_bytes <= each.planned_bytes
    assert now.under_way is None


def test_a_log_that_is_read_counts_the_same_as_the_run_did(tmp_path: Path) -> None:
    cluster = SimulatedCluster(even_workload(24, rate_steps({0: 1000, 40: 2500})))
    watched, log = Watched(), tmp_path / "log.jsonl"
    with watched.loop(cluster, replace(POLICY, max_executors=8), log):
        cluster.advance(200)
    again = read(log)
    assert again.counts.now == watched.counts.now
    assert again.values == watched.values


def test_a_change_that_is_given_up_counts_as_abandoned_and_what_moved_counts() -> None:
    cluster, watched = SimulatedCluster(even_workload(8, 1000)), Watched()
    with watched.loop(cluster, BY_HAND) as loop:
        cluster.advance(5)
        loop.move({task: "0" for task, node in cluster.where().items() if node == "1"})
        loop.run_until("migrate")
        cluster.advance(1)
        loop.abandon("somebody said so")
        (given_up,) = loop.of("abandon")
        now = watched.counts.now
    assert ends(now) == {("move", "abandoned"): 1}
    assert now.moves["move"].tasks == given_up.figures["tasks_moved"] > 0


def test_state_that_came_ahead_of_its_task_is_counted_apart() -> None:
    settings = ClusterSettings(copy_s=3.0)
    cluster = SimulatedCluster(even_workload(8, 1000, state_bytes=100 << 20), settings)
    watched = Watched()
    with watched.loop(cluster, BY_HAND) as loop:
        cluster.advance(5)
        loop.scale_to(3)
        (done,) = [loop.run_until("done")]
    moved = watched.counts.now.moves["scale-out"]
    assert moved.tasks == moved.tasks_ahead == done.figures["tasks_ahead"] > 0
    assert moved.state_bytes == moved.state_bytes_ahead > 0


def test_what_a_change_was_to_bring_stands_next_to_what_it_brought() -> None:
    cluster, watched = SimulatedCluster(even_workload(8, 800)), Watched()
    with watched.loop(cluster, BY_HAND) as loop:
        cluster.advance(5)
        loop.scale_to(4)
        figures = loop.run_until("done").figures
    totals = watched.counts.now
    counted = totals.queries["query"]
    assert counted.predicted_ms == figures["predicted_batch_ms"]["query"]
    assert counted.measured_ms == figures["measured_batch_ms"]["query"]
    assert totals.predicted_busiest == figures["predicted_busiest"]
    assert totals.measured_busiest == figures["measured_busiest"]


def test_moves_that_do_not_hold_are_counted_as_asked_again() -> None:
    cluster, watched = SimulatedCluster(even_workload(8, 1000)), Watched()
    with watched.loop(cluster, BY_HAND) as loop:
        cluster.advance(5)
        cluster.obeys = lambda _: False
        loop.move({task: "0" for task, node in cluster.where().items() if node == "1"})
        loop.run_until("abandon")
        asked = [each.figures["tries"] for each in loop.of("migrate")]
    assert asked == [0, 1, 2, 3, 4]
    assert watched.counts.now.queries["query"].asked_again == 2 * 4


def test_moves_that_the_runtime_does_not_take_are_counted() -> None:
    now = counted(
        decision("wait", "q", tasks_refused=3),
        decision("wait", "q"),
        decision("lost", "q", tasks_refused=2),
    )
    assert (now.queries["q"].refused, now.executors_lost) == (5, 0)


def test_executors_that_are_lost_are_counted() -> None:
    cluster, watched = SimulatedCluster(even_workload(8, 1000)), Watched()
    with watched.loop(cluster, BY_HAND):
        cluster.advance(5)
        cluster.kill("1")
        cluster.advance(5)
    assert watched.counts.now.executors_lost == 1


def test_demand_is_the_last_that_was_looked_at_and_unknown_once_no_one_looks() -> None:
    cluster = SimulatedCluster(even_workload(8, rate_steps({0: 1000, 20: 4000})))
    watched = Watched()
    with watched.loop(cluster, replace(POLICY, max_executors=2)) as loop:
        cluster.advance(60)
        last = [each for each in loop.decisions if "demand" in each.figures][-1]
        assert watched.counts.now.demand == last.figures["demand"] > 1
    assert watched.counts.now.demand is None


# Records by themselves


def test_a_change_that_a_detach_cuts_short_counts_as_neither() -> None:
    now = counted(decision("scale-out"), decision("detach"), decision("attach"))
    assert (ends(now), now.under_way) == ({}, None)


def test_a_request_that_is_given_up_before_it_began_is_no_change() -> None:
    assert ends(counted(decision("abandon"))) == {}


def test_a_change_whose_beginning_is_not_logged_is_of_unknown_kind() -> None:
    now = counted(decision("plan", state_bytes_to_move=7), decision("done", seconds=3.0))
    assert ends(now) == {("unknown", "done"): 1}
    assert now.moves["unknown"] == MoveCounts(planned_bytes=7)


def test_a_plan_that_only_advises_moves_nothing() -> None:
    now = counted(decision("advise", state_bytes_to_move=7))
    assert sum(each.planned_bytes for each in now.moves.values()) == 0


def test_what_the_goal_wants_is_known_while_it_is_held_back() -> None:
    held = decision("hold", wanted=3)
    assert counted(held).wanted == 3
    assert counted(held, decision("hold")).wanted is None
    assert counted(held, decision("scale-out", wanted=3)).wanted is None


def test_errors_are_counted() -> None:
    now = counted(
        decision("stuck", seconds=31.0),
        decision("stuck", seconds=75.0, came_back=1),
        decision("wait", dropped=7),
        decision("wait"),
        decision("detach", failed=1),
        decision("detach"),
    )
    assert (now.stuck_calls, now.events_lost, now.failures) == (1, 7, 1)


def test_a_bucket_holds_its_upper_bound() -> None:
    spread = Histogram.over((1.0, 2.0)).plus(1.0).plus(1.5).plus(2.0).plus(9.0)
    assert (spread.counts, spread.total) == ((1, 2, 1), 13.5)


def test_of_too_many_queries_those_that_left_first_are_forgotten() -> None:
    counts = Counts()
    for number in range(MOST_QUERIES):
        counts.take_decision(decision("join", f"q{number}"))
    counts.take_decision(decision("leave", "q5"))
    counts.take_decision(decision("leave", "q3"))
    counts.take_decision(decision("join", "new"))
    assert set(counts.now.queries) == {f"q{j}" for j in range(MOST_QUERIES) if j != 5} | {"new"}
    counts.take_batches([[f"more {number}", 0, 0, 10, 1] for number in range(3)])
    assert len(counts.now.queries) == MOST_QUERIES
    assert not {"q3", "q0", "q1"} & set(counts.now.queries)
    assert counts.now.left == {}


def test_a_query_that_comes_back_goes_on_where_it_was() -> None:
    counts = Counts()
    counts.take_decision(decision("join", "q"))
    counts.take_batches([["q", 0, 0, 10, 5]])
    counts.take_decision(decision("leave", "q"))
    counts.take_decision(decision("join", "q"))
    counts.take_batches([["q", 0, 0, 10, 5]])
    assert (counts.now.queries["q"].rows, counts.now.left) == (10, {})


def test_a_batch_that_no_one_can_have_measured_is_not_counted() -> None:
    counts = Counts()
    odd = [float("nan"), float("inf"), -1, 10**400]
    counts.take_batches([["q", 0, 0, ms, 1] for ms in odd] + [["q", 0, 0, 1, n] for n in odd])
    assert counts.now.queries == {}


amounts = st.integers(0, 1 << 40) | st.floats(0, 1e12)
names = st.sampled_from(["a", "b", "c"])
FIGURES = [
    "seconds",
    "tasks_moved",
    "state_bytes_moved",
    "state_bytes_to_move",
    "state_bytes_lower_bound",
    "asked_again",
    "tasks_refused",
    "executors_lost",
    "dropped",
    "failed",
    "came_back",
    "demand",
    "wanted",
]
decisions = st.builds(
    Decision,
    at_ms=st.just(0),
    batch=st.none(),
    kind=st.sampled_from(get_args(Kind)),
    reason=st.just("why"),
    executors=st.just(2),
    figures=st.dictionaries(st.sampled_from(FIGURES), amounts, max_size=4),
    query=st.none() | names,
)
batches = st.lists(
    st.tuples(names, st.just(0), st.just(0), amounts | st.just(-5), amounts | st.just(-5)),
    max_size=3,
)


@settings(max_examples=min(300, settings().max_examples))
@given(st.lists(decisions | batches, max_size=12))
def test_nothing_that_is_counted_ever_goes_down(records: list[Any]) -> None:
    counts, before = Counts(), numbers(Counted())
    for record in records:
        if isinstance(record, Decision):
            counts.take_decision(record)
        else:
            counts.take_batches(record)
        after = numbers(counts.now)
        assert {name: value for name, value in before.items() if after[name] < value} == {}
        before = after


def numbers(now: Counted) -> dict[Any, float]:
    """All that is counted, number by number."""
    found: dict[Any, float] = {
        "lost": now.executors_lost,
        "stuck": now.stuck_calls,
        "events": now.events_lost,
        "failures": now.failures,
        **now.decisions,
    }
    for name, query in now.queries.items():
        found |= {(name, "rows"): query.rows, (name, "again"): query.asked_again}
        found[name, "refused"] = query.refused
        found |= spread((name, "batch_s"), query.batch_s)
    for how, took in now.changes.items():
        found |= spread(how, took)
    for kind, moved in now.moves.items():
        for member in MoveCounts.__slots__:
            found[kind, member] = getattr(moved, member)
    return found


def spread(name: object, report: Histogram) -> dict[Any, float]:
    return {(name, "total"): report.total} | {
        (name, bucket): number for bucket, number in enumerate(report.counts)
    }
