"""The replication goal by itself, and in the loop on a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.replication.goal.scenes import executors, looked, observed, scene

from elastream.core.application import GoalBounds, Observed
from elastream.core.decisions import Decision
from elastream.core.driver import Controller
from elastream.core.goal import Failure, Probe, Think, Wanted
from elastream.core.policy import Policy, Timeouts
from elastream.model.observation import BatchObservation, Executor
from elastream.replication.goal.goal import Replication, ReplicationMemory
from elastream.replication.goal.placing import ReplicaPlanner
from elastream.replication.goal.solving import Solve
from elastream.replication.model.problem import Weights
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedTask,
    Workload,
    simulated,
)

WHERE = {0: "00", 1: "0011"}
RUN_MS = {0: 50.0, 1: 400.0}
ROWS = {0: 20, 1: 100}


def after_batches(
    goal: Replication,
    batches: Sequence[BatchObservation],
    nodes: tuple[Executor, ...],
    *,
    most: int | None = None,
    disturbed: bool = False,
) -> tuple[ReplicationMemory, Observed]:
    """What is remembered and seen after these batches, the goal not asked yet."""
    memory = goal.memory()
    for number, batch in enumerate(batches, 1):
        seen = observed(batches[:number], nodes, most=most)
        memory = goal.after_batch(memory, seen, batch, disturbed=disturbed)
    return memory, seen


def asked(
    goal: Replication, memory: ReplicationMemory, seen: Observed
) -> tuple[ReplicationMemory, Think]:
    """The question that the goal asks once its period is over."""
    memory, wanted, questions = goal.wanted(replace(memory, decided_ms=0), at(seen, 60))
    assert wanted.need == "hold"
    (question,) = questions
    assert isinstance(question, Think)
    return memory, question


def answered(
    goal: Replication,
    batches: Sequence[BatchObservation],
    nodes: tuple[Executor, ...],
    *,
    most: int | None = None,
) -> tuple[ReplicationMemory, Wanted]:
    """What the goal wants once its question is answered."""
    memory, seen = after_batches(goal, batches, nodes, most=most)
    memory, question = asked(goal, memory, seen)
    memory, wanted = goal.after_answer(memory, at(seen, 61), question, question.work())
    assert wanted is not None
    return memory, wanted


def at(seen: Observed, second: float) -> Observed:
    return replace(seen, now_ms=round(1000 * second))


# When it is solved


def test_it_is_solved_when_the_period_is_over_or_the_bound_broken_for_long_enough() -> None:
    goal = Replication(response_ms=900, period_s=20, cooldown_s=5, patience=3)
    nodes = executors(3)
    solved = []
    for slow_from in (1000, 8):
        memory, batches = goal.memory(), []
        for number in range(30):
            duration_ms = 700 if number >= slow_from else 500
            batches.append(looked(number, WHERE, run_ms=RUN_MS, rows=ROWS, duration_ms=duration_ms))
            seen = observed(batches, nodes)
            memory = goal.after_batch(memory, seen, batches[-1], disturbed=False)
            memory, _, questions = goal.wanted(memory, seen)
            if questions:
                solved.append(number)
                break
    assert solved == [20, 10]


def test_a_batch_that_was_disturbed_breaks_no_bound_and_is_no_usual_one() -> None:
    goal = Replication(response_ms=600)
    slow = scene(WHERE, run_ms=RUN_MS, rows=ROWS, duration_ms=900)
    memory, _ = after_batches(goal, slow, executors(3))
    assert memory.broken == {"query": 4}
    disturbed, _ = after_batches(goal, slow, executors(3), disturbed=True)
    assert disturbed.broken == {"query": 0}
    assert (disturbed.points, disturbed.outside_ms) == ({}, {})


@pytest.mark.parametrize("disturbed", [False, True])
def test_queries_executors_and_hosts_that_have_gone_are_forgotten_after_a_change(
    disturbed: bool,
) -> None:
    goal = Replication(response_ms=600, probes=2)
    gone = scene({0: "12"}, run_ms=RUN_MS, rows=ROWS, query="gone")
    stays = scene({0: "01"}, run_ms=RUN_MS, rows=ROWS, query="stays")
    before = [batch for pair in zip(gone, stays, strict=True) for batch in pair]
    memory, seen = after_batches(goal, before, executors(3, hosts=True))
    memory, _, (probe,) = goal.wanted(memory, seen)
    assert isinstance(probe, Probe)
    memory, _ = goal.after_answer(memory, seen, probe, dict.fromkeys(probe.pairs, 7.0))

    nodes = executors(2, hosts=True)
    last = looked(4, {0: "01"}, run_ms=RUN_MS, rows=ROWS, query="stays")
    left = observed([*stays, last], nodes)
    after = goal.after_batch(memory, left, last, disturbed=disturbed)

    experience, hosts = after.experience, {"host0", "host1"}
    names = {*after.broken, *after.outside_ms, *(query for query, _ in after.points)}
    names |= {task.query for task in experience.where}
    far = {host for pair in (*after.probes, *after.round_trips_ms) for host in pair}
    kept = (names, {*experience.seen, *experience.speeds}, far | after.probed_hosts)
    if disturbed:
        assert kept == ({"gone", "stays"}, {"0", "1", "2"}, hosts | {"host2"})
    else:
        assert kept == ({"stays"}, {"0", "1"}, hosts)
        back = observed([*before, last], executors(3, hosts=True))
        assert len(probes(goal, after, back)) == 1, "a host that is back is probed"


def test_each_query_breaks_the_bound_by_itself() -> None:
    goal = Replication(response_ms=600)
    batches = [
        looked(n, WHERE, run_ms=RUN_MS, rows=ROWS, duration_ms=ms, query=query)
        for n in range(3)
        for query, ms in (("slow", 900), ("fast", 100))
    ]
    memory, _ = after_batches(goal, batches, executors(3))
    assert memory.broken == {"slow": 3, "fast": 0}


def test_nothing_is_asked_while_a_plan_is_worked_out() -> None:
    goal = Replication(response_ms=900)
    memory, seen = after_batches(goal, scene(WHERE, run_ms=RUN_MS, rows=ROWS), executors(3))
    memory, _ = asked(goal, memory, seen)
    memory, wanted, questions = goal.wanted(memory, at(seen, 999))
    assert questions == ()
    assert wanted.reason.endswith("; a plan is being worked out")


def test_nothing_is_asked_while_too_little_is_known() -> None:
    goal = Replication(response_ms=900)
    seen = at(observed(scene(WHERE, run_ms=RUN_MS, rows=ROWS), executors(3)), 60)
    memory = replace(goal.memory(), decided_ms=0)
    _, wanted, questions = goal.wanted(memory, seen)
    assert questions == ()
    assert wanted.reason.endswith("; not every task has been measured yet")


def test_the_bounds_on_executors_come_first() -> None:
    goal = Replication(response_ms=900)
    memory, seen = after_batches(goal, scene(WHERE, run_ms=RUN_MS, rows=ROWS), executors(3))
    _, wanted, _ = goal.wanted(memory, replace(seen, bounds=GoalBounds(4, 8, 0.2)))
    assert (wanted.need, wanted.executors) == ("scale-out", 4)


def test_downtime_does_not_count_in_the_first_plan_unless_it_is_asked_to() -> None:
    problems = []
    for goal in (
        Replication(response_ms=900),
        Replication(response_ms=900, first_ignores_downtime=False),
    ):
        memory, seen = after_batches(goal, scene(WHERE, run_ms=RUN_MS, rows=ROWS), executors(3))
        memory, first = asked(goal, memory, seen)
        memory, _ = goal.after_answer(memory, at(seen, 60), first, Failure("never mind"))
        _, second = asked(goal, memory, seen)
        for question in (first, second):
            assert isinstance(question.work, Solve)
            problems.append(question.work.problem.weights.downtime)
    assert problems == [0, 0.4, 0.4, 0.4]


def test_a_plan_that_failed_is_tried_again_later() -> None:
    goal = Replication(response_ms=900)
    memory, seen = after_batches(goal, scene(WHERE, run_ms=RUN_MS, rows=ROWS), executors(3))
    memory, question = asked(goal, memory, seen)
    memory, wanted = goal.after_answer(memory, at(seen, 61), question, Failure("out of luck"))
    assert wanted is None
    assert not memory.solving
    assert goal.wanted(memory, at(seen, 120))[2] == ()
    (again,) = goal.wanted(memory, at(seen, 121))[2]
    assert isinstance(again, Think)


# What it wants


CHEAP = Replication(response_ms=2000, probes=0, weights=Weights(0.01, 1, 0))
FAST = Replication(response_ms=2000, probes=0, weights=Weights(1, 0.01, 0))


def test_a_plan_that_lacks_a_query_which_came_meanwhile_is_not_carried_out() -> None:
    goal = Replication(response_ms=900)
    batches = scene(WHERE, run_ms=RUN_MS, rows=ROWS)
    memory, seen = after_batches(goal, batches, executors(3))
    memory, question = asked(goal, memory, seen)
    more = scene({0: "2"}, run_ms=RUN_MS, rows=ROWS, query="newcomer")
    both = observed([*batches, *more], executors(3))
    memory, wanted = goal.after_answer(memory, at(both, 61), question, question.work())
    assert wanted is not None
    assert (wanted.need, wanted.executors) == ("hold", 3)
    assert "newcomer/0 started while a plan was worked out" in wanted.reason
    assert memory.deployment is None
    assert not memory.solving


def test_executors_that_hold_no_replica_are_given_back() -> None:
    batches = scene(WHERE, run_ms=RUN_MS, rows=ROWS)
    memory, wanted = answered(CHEAP, batches, executors(3))
    assert (wanted.need, wanted.executors, wanted.firm) == ("scale-in", 1, True)
    assert wanted.figures["wanted"] == 1
    assert (wanted.figures["cost_now"], wanted.figures["cost"]) == (2, 1)
    assert memory.deployment is not None
    assert len({node for nodes in memory.deployment.values() for node in nodes}) == 2


def test_executors_that_might_come_are_asked_for() -> None:
    batches = scene({0: "0", 1: "0000"}, run_ms={0: 50.0, 1: 900.0}, rows=ROWS, duration_ms=1500)
    memory, wanted = answered(FAST, batches, executors(1), most=4)
    assert (wanted.need, wanted.executors) == ("scale-out", 4)
    assert wanted.figures["response_ms"] < wanted.figures["response_ms_now"]
    assert memory.known == {"0"}


def test_never_more_executors_than_the_maximum() -> None:
    batches = scene({0: "0", 1: "0000"}, run_ms={0: 50.0, 1: 900.0}, rows=ROWS, duration_ms=1500)
    _, wanted = answered(FAST, batches, executors(1), most=2)
    assert (wanted.need, wanted.executors) == ("scale-out", 2)


def test_another_set_of_replicas_on_as_many_executors_is_a_rebalance() -> None:
    batches = scene({0: "11", 1: "0000"}, run_ms={0: 50.0, 1: 900.0}, rows=ROWS)
    _, wanted = answered(FAST, batches, executors(2))
    assert (wanted.need, wanted.executors, wanted.firm) == ("rebalance", 2, True)
    assert "query/1 on 0, 1 (was 0): response" in wanted.reason


def test_the_best_deployment_is_left_alone() -> None:
    batches = scene({0: "0", 1: "0"}, run_ms={0: 50.0, 1: 100.0}, rows=ROWS, duration_ms=300)
    memory, wanted = answered(CHEAP, batches, executors(1))
    assert wanted.need == "hold"
    assert "the deployment is the best there is" in wanted.reason
    assert memory.deployment is None


def uneven(shares: str) -> tuple[ReplicationMemory, Wanted]:
    batches = scene({0: "01", 1: shares}, run_ms={0: 50.0, 1: 900.0}, rows=ROWS)
    return answered(FAST, batches, executors(2))


def test_partitions_move_within_an_unchanged_set_of_replicas_where_one_holds_too_much() -> None:
    memory, wanted = uneven("00000001")
    assert (wanted.need, wanted.executors, wanted.firm) == ("rebalance", 2, True)
    assert wanted.reason == "executor 0 holds 1.75 times the mean share of query/1"
    assert memory.deployment is not None


@pytest.mark.parametrize("shares", ["00001111", "00000111", "01"])
def test_shares_within_tau_are_left_alone(shares: str) -> None:
    assert uneven(shares)[1].need == "hold"


def test_a_bound_that_cannot_be_met_is_met_as_nearly_as_can_be() -> None:
    goal = replace(CHEAP, response_ms=400)
    batches = scene({0: "0", 1: "0000"}, run_ms={0: 50.0, 1: 900.0}, rows=ROWS, duration_ms=1500)
    _, wanted = answered(goal, batches, executors(2))
    assert "as fast as can be, for" in wanted.reason


def test_where_no_deployment_is_allowed_all_stays_as_it_is_and_the_log_says_why() -> None:
    goal = replace(CHEAP, cost=0.5)
    _, wanted = answered(goal, scene(WHERE, run_ms=RUN_MS, rows=ROWS), executors(2))
    assert wanted.need == "hold"
    assert "; no deployment is allowed: " in wanted.reason


@pytest.mark.parametrize(
    ("weights", "need"), [(Weights(0.1, 0.9, 0), "scale-in"), (Weights(0.1, 0.3, 0.6), "hold")]
)
def test_downtime_that_counts_makes_fewer_changes(weights: Weights, need: str) -> None:
    goal = replace(
        CHEAP, weights=weights, first_ignores_downtime=False, sync_ms=3000, downtime_ms=3500
    )
    batches = scene(WHERE, run_ms=RUN_MS, rows=ROWS)
    assert answered(goal, batches, executors(2))[1].need == need


def test_the_cheapest_hosts_are_taken() -> None:
    goal = replace(CHEAP, executor_price={"dear": 9.0, "cheap": 1.0})
    nodes = executors(2, hosts=["dear", "cheap"])
    batches = scene({0: "0", 1: "0000"}, run_ms={0: 50.0, 1: 100.0}, rows=ROWS, duration_ms=500)
    memory, wanted = answered(goal, batches, nodes)
    assert wanted.need == "scale-in"
    assert memory.deployment == {
        "query/source": ("source",),
        "query/0": ("1",),
        "query/1": ("1",),
    }


def test_pinned_operators_are_brought_to_their_hosts() -> None:
    goal = replace(FAST, pins={"query/1": ["there"]})
    nodes = executors(3, hosts=["here", "here", "there"])
    batches = scene({0: "0", 1: "0011"}, run_ms={0: 50.0, 1: 400.0}, rows=ROWS)
    memory, wanted = answered(goal, batches, nodes)
    assert wanted.need != "hold"
    assert memory.deployment is not None
    assert memory.deployment["query/1"] == ("2",)
    assert "query/1 on 2 (was 0, 1)" in wanted.reason


def test_an_operator_has_no_more_replicas_than_allowed() -> None:
    goal = replace(FAST, max_replicas={"query": 4, "query/1": 2})
    batches = scene({0: "0", 1: "0000"}, run_ms={0: 50.0, 1: 900.0}, rows=ROWS, duration_ms=1500)
    memory, _ = answered(goal, batches, executors(4))
    assert memory.deployment is not None
    assert len(memory.deployment["query/1"]) == 2


# Carrying it out


def test_the_plan_is_carried_out_by_a_planner_of_its_own_until_the_change_has_ended() -> None:
    batches = scene({0: "0", 1: "0000"}, run_ms={0: 50.0, 1: 900.0}, rows=ROWS, duration_ms=1500)
    memory, wanted = answered(FAST, batches, executors(1), most=4)
    seen = observed(batches, executors(4))
    planner = FAST.planner(memory, seen, wanted.executors)
    assert isinstance(planner, ReplicaPlanner)
    assert {len(nodes) for nodes in planner.replicas.values()} == {1, 4}
    memory = FAST.after_change(memory, at(seen, 99), done=True)
    assert (memory.deployment, memory.decided_ms) == (None, 99_000)
    assert FAST.planner(memory, seen, 4) is None


# Probes


def probing(number: int, nodes: int = 3, **settings: Any) -> tuple[Replication, Observed]:
    goal = Replication(response_ms=600, **settings)
    batches = scene(WHERE, run_ms=RUN_MS, rows=ROWS)
    return goal, at(observed(batches, executors(nodes, hosts=True)), number)


def probes(goal: Replication, memory: ReplicationMemory, seen: Observed) -> list[Probe]:
    return [each for each in goal.wanted(memory, seen)[2] if isinstance(each, Probe)]


def test_hosts_are_probed_once_a_while_and_when_a_new_one_comes() -> None:
    goal, seen = probing(0, probes=2, probe_every_s=300)
    memory, _, (probe,) = goal.wanted(goal.memory(), seen)
    assert isinstance(probe, Probe)
    assert len(probe.pairs) == 6
    assert probes(goal, memory, seen) == [], "while one is under way"
    table = dict.fromkeys(probe.pairs, 7.0)
    memory, wanted = goal.after_answer(memory, seen, probe, table)
    assert wanted is None
    assert set(memory.round_trips_ms.values()) == {0.0, 7.0}
    assert probes(goal, memory, at(seen, 299)) == []
    assert len(probes(goal, memory, at(seen, 300))) == 1
    assert len(probes(goal, memory, probing(1, nodes=4)[1])) == 1
    assert probes(goal, memory, probing(1, nodes=2)[1]) == [], "not when one goes"


def test_hosts_that_could_not_be_probed_are_probed_again_later() -> None:
    goal, seen = probing(0, probes=2)
    memory, _, (probe,) = goal.wanted(goal.memory(), seen)
    memory, wanted = goal.after_answer(memory, seen, probe, Failure("no way"))
    assert (wanted, memory.probing, memory.round_trips_ms) == (None, False, {})
    assert len(probes(goal, memory, at(seen, 300))) == 1


def test_one_host_needs_no_probe_and_none_is_made_where_none_is_wanted() -> None:
    goal = Replication(response_ms=600)
    seen = observed(scene(WHERE, run_ms=RUN_MS, rows=ROWS), executors(3))
    assert probes(goal, goal.memory(), seen) == []
    none, apart = probing(0, probes=0)
    assert probes(none, none.memory(), apart) == []


# Slots


def test_operators_that_together_keep_an_executor_too_busy_get_another() -> None:
    batches = scene({0: "0000", 1: "0000"}, run_ms={0: 600.0, 1: 500.0}, rows=ROWS)
    memory, wanted = answered(CHEAP, batches, executors(1), most=2)
    assert (wanted.need, wanted.executors) == ("scale-out", 2)
    assert memory.deployment is not None
    both = ("0", "newcomer 0")
    assert (memory.deployment["query/0"], memory.deployment["query/1"]) == (both, both), (
        "stages run one after another: one on each would take as long"
    )


def test_queries_that_together_keep_an_executor_too_busy_get_another() -> None:
    both = [
        batch
        for name in ("q", "r")
        for batch in scene({0: "00"}, run_ms={0: 600.0}, rows=ROWS, query=name)
    ]
    one_each = replace(CHEAP, max_replicas=1)
    memory, wanted = answered(one_each, both, executors(1), most=2)
    assert (wanted.need, wanted.executors) == ("scale-out", 2)
    assert memory.deployment is not None
    places = {memory.deployment["q/0"], memory.deployment["r/0"]}
    assert places == {("0",), ("newcomer 0",)}


@pytest.mark.parametrize(("busy_ms", "need"), [(860.0, "hold"), (940.0, "scale-out")])
def test_what_is_there_may_use_the_room_that_a_change_leaves_free(
    busy_ms: float, need: str
) -> None:
    batches = scene({0: "0000"}, run_ms={0: busy_ms}, rows=ROWS)
    assert answered(CHEAP, batches, executors(1), most=2)[1].need == need
    again = scene({0: "0011"}, run_ms={0: busy_ms}, rows=ROWS)
    assert answered(CHEAP, again, executors(2))[1].need == "hold", "no way back for a little less"


@pytest.mark.parametrize("latency", ["fitted", "queue"])
def test_too_few_executors_are_used_as_well_as_can_be(latency: Any) -> None:
    goal = replace(CHEAP, latency=latency)
    batches = scene({0: "0000", 1: "0000"}, run_ms={0: 950.0, 1: 950.0}, rows=ROWS)
    memory, wanted = answered(goal, batches, executors(1), most=2)
    assert (wanted.need, wanted.executors) == ("scale-out", 2)
    assert "; as fast as can be, for the operators do not fit" in wanted.reason
    assert memory.deployment is not None
    assert memory.deployment["query/0"] == memory.deployment["query/1"] == ("0", "newcomer 0")


def test_batches_that_cannot_keep_their_trigger_are_no_reason_to_share_an_executor() -> None:
    slow: dict[str, Any] = {"rows": {0: 100}, "duration_ms": 5000.0, "interval_ms": 5000.0}
    both = [
        replace(looked(n, {0: "00"}, run_ms={0: 3000.0}, query=name, **slow), finished_at_ms=at_ms)
        for n, at_ms in enumerate((5000, 10_000, 15_000))
        for name in ("q", "r")
    ]
    goal = replace(CHEAP, max_replicas=1)
    memory, seen = after_batches(goal, both, executors(1), most=2)
    queries = {name: replace(each, trigger_ms=1000) for name, each in seen.queries.items()}
    memory, question = asked(goal, memory, replace(seen, queries=queries))
    _, wanted = goal.after_answer(memory, at(seen, 61), question, question.work())
    assert wanted is not None
    assert (wanted.need, wanted.executors) == ("scale-out", 2)


# What always holds


@pytest.mark.parametrize("response_ms", [10, 2000])
@pytest.mark.parametrize(
    ("rule", "where"),
    [
        ({"pins": {"query/1": ["host1"]}}, {0: "0", 1: "0011"}),
        ({"max_replicas": {"query/1": 1}}, {0: "0", 1: "0011"}),
        ({"replicas_an_executor": 1}, {0: "0", 1: "0000"}),
    ],
)
def test_a_rule_that_is_broken_is_repaired_whatever_the_bound(
    rule: dict[str, Any], where: Mapping[int, str], response_ms: int
) -> None:
    goal = replace(FAST, response_ms=response_ms, **rule)
    batches = scene(where, run_ms={0: 50.0, 1: 400.0}, rows=ROWS)
    memory, wanted = answered(goal, batches, executors(2, hosts=True))
    assert wanted.need in ("rebalance", "scale-in")
    assert memory.deployment is not None
    places = [memory.deployment[f"query/{operator}"] for operator in (0, 1)]
    assert len(places[1]) == 1
    if "pins" in rule:
        assert places[1] == ("1",)
    if "replicas_an_executor" in rule:
        assert not set(places[0]) & set(places[1])


# In the loop


PARTITIONS = 6
QUICK = Replication(
    response_ms=1350,
    period_s=10,
    cooldown_s=4,
    patience=2,
    sync_ms=0,
    cold_ms=0,
    weights=Weights(0.3, 0.3, 0.1),
)


def workload(peak: float) -> Workload:
    """Operator 1 costs 4 ms a row, operator 0 a tenth of it; 100 rows a second, more at times."""
    tasks = tuple(
        SimulatedTask(operator, j, 1 / PARTITIONS, row_ms, 1 << 16)
        for operator, row_ms in ((0, 0.4), (1, 4.0))
        for j in range(PARTITIONS)
    )
    return Workload(tasks, lambda second: peak if 60 <= second < 140 else 100.0)


class Run:
    """The loop with a replication goal on a simulated cluster."""

    def __init__(
        self,
        goal: Replication = QUICK,
        *,
        peak: float = 500.0,
        settings: ClusterSettings | None = None,
        **policy: Any,
    ) -> None:
        self.cluster = SimulatedCluster(workload(peak), settings or ClusterSettings(executors=2))
        self.decisions: list[Decision] = []
        timeouts = Timeouts(smoothing_s=3)
        bounds = Policy(**{"max_executors": 4, "timeouts": timeouts, "cooldown_s": 3, **policy})
        self.controller: Controller = simulated(
            self.cluster, replace(bounds, goal=goal), log=self.decisions.append
        ).start()

    def until(self, second: float) -> Run:
        self.cluster.advance(second - self.cluster.now_ms / 1000)
        return self

    def holders(self, operator: int) -> set[str]:
        where: Mapping[Any, str] = self.cluster.where()
        return {node for task, node in where.items() if task.operator == operator}

    @property
    def kinds(self) -> list[str]:
        return [decision.kind for decision in self.decisions]


def test_executors_and_replicas_follow_a_load_that_rises_and_falls() -> None:
    run = Run()
    alive = [len(run.until(second).cluster.executors()) for second in (55, 130, 260)]
    run.controller.detach()
    assert alive[0] < alive[1] > alive[2]
    assert run.kinds.count("scale-out") >= 1
    assert run.kinds.count("scale-in") >= 1
    assert "abandon" not in run.kinds


@pytest.mark.parametrize(
    ("response_ms", "scalings"), [(1350, ["scale-in"]), (950, ["scale-out", "scale-in"])]
)
def test_a_newcomer_replaces_an_executor_only_where_the_bound_cannot_be_met_otherwise(
    response_ms: int, scalings: list[str]
) -> None:
    goal = replace(QUICK, response_ms=response_ms, weights=Weights(0.3, 0.6, 0.1))
    settings = ClusterSettings(executors=2, hosts=("slow", "fast", "fast"), speeds={"slow": 0.3})
    run = Run(goal, peak=100.0, settings=settings, max_executors=3).until(100)
    run.controller.detach()
    assert {executor.host for executor in run.cluster.executors()} == {"fast"}
    assert [kind for kind in run.kinds if kind.startswith("scale")] == scalings
    assert "abandon" not in run.kinds


@pytest.mark.parametrize("second", [55, 300])
def test_the_cluster_is_as_the_last_plan_has_it(second: int) -> None:
    run = Run().until(second)
    assert run.controller.wait(0.0), "nothing is under way"
    run.controller.detach()
    changed = [d for d in run.decisions if d.kind in ("scale-out", "scale-in", "rebalance")]
    assert changed[-1].figures["wanted"] == len(run.cluster.executors())
    assert run.holders(0) | run.holders(1) == {each.id for each in run.cluster.executors()}


def test_a_steady_load_is_left_alone_in_the_end() -> None:
    run = Run(peak=100.0).until(120)
    before = len(run.decisions)
    run.until(300)
    run.controller.detach()
    assert {decision.kind for decision in run.decisions[before:-1]} == {"hold"}


def test_advice_moves_nothing() -> None:
    run = Run(advise_only=True).until(3)
    before = run.cluster.where()
    run.until(130)
    run.controller.detach()
    assert run.cluster.where() == before
    assert "advise" in run.kinds
    assert len(run.cluster.executors()) == 2


def test_a_slow_host_gets_less_to_do() -> None:
    hosts = ClusterSettings(executors=2, hosts=("slow", "fast"), speeds={"slow": 0.25})
    run = Run(peak=100.0, settings=hosts, max_executors=2).until(200)
    memory = run.controller.state.memory
    run.controller.detach()
    assert memory.experience.speeds["1"] > 1
    assert [each.host for each in run.cluster.executors()] == ["fast"], "the slow one is not needed"


@pytest.mark.parametrize("on", ["ab", "baa", "abb"])
def test_pins_hold_in_the_loop(on: str) -> None:
    goal = replace(QUICK, pins={"query/0": ["b"]})
    hosts = ClusterSettings(executors=len(on), hosts=tuple(on))
    run = Run(goal, settings=hosts).until(100)
    while not run.controller.wait(0.0):
        run.until(run.cluster.now_ms / 1000 + 1)
    run.controller.detach()
    on_b = {each.id for each in run.cluster.executors() if each.host == "b"}
    assert run.holders(0) <= on_b
    assert "abandon" not in run.kinds
