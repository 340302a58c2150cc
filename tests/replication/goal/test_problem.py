from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replication.goal.scenes import (
    CHAIN,
    executors,
    looked,
    observed,
    scene,
    seen,
)

from elastream.model.errors import ProblemError
from elastream.model.observation import Executor, OperatorGraph
from elastream.replication.goal.experience import Experience
from elastream.replication.goal.goal import Replication
from elastream.replication.goal.operators import operator_loads
from elastream.replication.goal.problem import SOURCE, problem_of
from elastream.replication.goal.response import latency_of, outside_ms, with_batch
from elastream.replication.goal.settings import ReplicationSettings
from elastream.replication.model.latency import Polynomial, Queue
from elastream.replication.model.problem import (
    Bounds,
    Node,
    Operator,
    ReplicationProblem,
    Weights,
)
from elastream.replication.planner.evaluation import evaluate

GOAL = Replication(response_ms=2000)
WHERE = {0: "00", 1: "0011"}
RUN_MS = {0: 100.0, 1: 800.0}
ROWS = {0: 40, 1: 200}
BATCHES = scene(WHERE, run_ms=RUN_MS, rows=ROWS)


def problem(
    goal: ReplicationSettings = GOAL,
    *,
    nodes: tuple[Executor, ...] | None = None,
    most: int | None = None,
    round_trips_ms: Mapping[tuple[str, str], float] | None = None,
    experience: Experience | None = None,
    weights: Weights | None = None,
    graph: OperatorGraph = CHAIN,
) -> ReplicationProblem:
    nodes = executors(3) if nodes is None else nodes
    found = problem_of(
        observed(BATCHES, nodes, most=most, graph=graph),
        seen(BATCHES, nodes, round_trips_ms=round_trips_ms, experience=experience),
        goal,
        weights=weights,
    )
    assert found is not None
    return found


def operator(found: ReplicationProblem, name: str) -> Operator:
    return next(each for each in found.operators if each.name == name)


def node(found: ReplicationProblem, name: str) -> Node:
    return next(each for each in found.nodes if each.name == name)


def streams(found: ReplicationProblem) -> list[tuple[str, str, float]]:
    return [(each.source, each.target, round(each.rate, 6)) for each in found.streams]


# Operators and streams


def test_operators_are_those_with_state_and_one_a_query_that_no_one_steers() -> None:
    found = problem()
    assert [each.name for each in found.operators] == ["query/source", "query/0", "query/1"]
    assert streams(found) == [("query/1", "query/0", 40), ("query/source", "query/1", 200)]
    assert found.current == {
        "query/source": (SOURCE,),
        "query/0": ("0",),
        "query/1": ("0", "1"),
    }
    assert found.distinct
    assert operator(found, "query/0").nodes == ("0", "1", "2")
    assert operator(found, "query/source").nodes == (SOURCE,)


def test_operators_that_no_one_feeds_read_the_source_one_after_the_other() -> None:
    found = problem(graph=OperatorGraph({0: None, 1: None}))
    assert streams(found) == [
        ("query/source", "query/0", 40),
        ("query/source", "query/1", 200),
        ("query/0", "query/1", 0),
    ]


def test_an_operator_that_several_feed_gets_an_equal_share_of_each() -> None:
    nodes = executors(2)
    batches = scene(
        {0: "0", 1: "0", 2: "1"}, run_ms=dict.fromkeys(range(3), 10.0), rows={0: 80, 1: 30, 2: 50}
    )
    graph = OperatorGraph({0: None, 1: 0, 2: 0})
    found = problem_of(observed(batches, nodes, graph=graph), seen(batches, nodes), GOAL)
    assert found is not None
    assert streams(found)[:2] == [("query/1", "query/0", 40), ("query/2", "query/0", 40)]


def test_the_operators_of_all_queries_are_planned_together() -> None:
    nodes = executors(2)
    both = [
        batch for name in ("q", "r") for batch in scene(WHERE, run_ms=RUN_MS, rows=ROWS, query=name)
    ]
    found = problem_of(observed(both, nodes), seen(both, nodes), GOAL)
    assert found is not None
    assert [each.name for each in found.operators] == [
        *("q/source", "r/source"),
        *("q/0", "q/1", "r/0", "r/1"),
    ]
    assert node(found, "0").resources == 4, "an executor may hold a share of each"


def test_the_deployment_that_is_there_is_worth_what_the_batches_took() -> None:
    found = problem()
    worth = evaluate(found, found.current or {})
    assert worth.faults == ()
    stages_ms = 100 + 400
    batch_ms = (1000 - stages_ms) + stages_ms
    assert worth.response_ms == pytest.approx(1.5 * batch_ms), "a row waits for half a batch"
    assert worth.cost == 2, "two executors hold state, and replicas are free"


@given(st.integers(1, 3))
def test_replicas_share_the_time_of_their_stage(replicas: int) -> None:
    found = problem()
    deployment = {**(found.current or {}), "query/1": ("0", "1", "2")[:replicas]}
    assert evaluate(found, deployment).response_ms == pytest.approx(
        1.5 * (500 + 100 + 800 / replicas)
    )


def test_a_backlog_makes_the_rates_higher_than_what_is_worked_off() -> None:
    nodes = executors(2)
    batches = [
        looked(number, WHERE, run_ms=RUN_MS, rows=ROWS, backlog=200 * number) for number in range(6)
    ]
    found = problem_of(observed(batches, nodes), seen(batches, nodes), GOAL)
    assert found is not None
    assert found.streams[1].rate > 350


def test_nothing_is_planned_while_too_little_is_known() -> None:
    nodes = executors(2)
    known = seen(BATCHES, nodes)
    first = looked(0, WHERE, run_ms=RUN_MS, rows=ROWS, interval_ms=None)
    assert problem_of(observed([], nodes), known, GOAL) is None, "no task"
    assert problem_of(observed([first], nodes), known, GOAL) is None, "none measured"
    assert problem_of(observed(BATCHES, nodes[:1]), known, GOAL) is None, "tasks without a home"
    unheard = replace(known, outside_ms={})
    assert problem_of(observed(BATCHES, nodes), unheard, GOAL) is None, "no batch looked at"


# How many replicas


def test_an_operator_never_has_more_replicas_than_partitions_or_executors() -> None:
    assert [each.max_replicas for each in problem().operators] == [1, 2, 3]


def test_replicas_beyond_the_most_count_as_moved() -> None:
    few = problem(Replication(response_ms=2000, max_replicas=1))
    assert [each.max_replicas for each in few.operators] == [1, 1, 1]
    assert few.current is not None
    assert few.current["query/1"] == ("0",)


def test_the_most_replicas_may_be_said_by_query_or_by_operator() -> None:
    goal = Replication(response_ms=2000, max_replicas={"query": 2, "query/1": 3, "other": 4})
    assert [goal.most_replicas("query", each) for each in (0, 1)] == [2, 3]
    assert goal.most_replicas("unnamed", 0) == 4
    assert [each.max_replicas for each in problem(goal).operators] == [1, 2, 3]


def test_an_executor_may_hold_shares_of_a_few_operators_only() -> None:
    goal = Replication(response_ms=2000, replicas_an_executor=1)
    assert [each.resources for each in problem(goal).nodes] == [0, 1, 1, 1]


def test_deployments_too_many_to_be_listed_change_by_one_replica_a_time() -> None:
    nodes = executors(40)
    batches = scene({1: "0" * 40}, run_ms={1: 100.0}, rows={1: 400})
    goal = Replication(response_ms=2000, max_replicas=40)
    found = problem_of(observed(batches, nodes), seen(batches, nodes), goal)
    assert found is not None
    assert found.restricted
    assert not problem().restricted


# What keeps executors busy


def test_a_replica_keeps_busy_the_fullest_share_of_an_even_spread() -> None:
    found = problem()
    assert operator(found, "query/source").busy == ()
    assert operator(found, "query/1").busy == pytest.approx((0.8, 0.4, 0.4)), "four tasks on three"
    assert [each.slots for each in found.nodes[1:]] == pytest.approx([0.9] * 3)


def test_slots_and_measured_speeds_say_how_much_an_executor_can_do() -> None:
    known = Experience(speeds={"0": 0.5, "1": 1.5})
    nodes = executors(3, cores=[1, 1, 4])
    found = problem(Replication(response_ms=2000, busiest=0.8), nodes=nodes, experience=known)
    assert [each.slots for each in found.nodes[1:]] == pytest.approx([0.4, 1.2, 3.2])


def test_work_outside_stateful_tasks_goes_with_the_replicas() -> None:
    nodes = executors(2)
    seen_now = replace(observed(BATCHES, nodes), other={"0": 0.3, "1": 0.15})
    found = problem_of(seen_now, seen(BATCHES, nodes), GOAL)
    assert found is not None
    assert operator(found, "query/1").busy == pytest.approx((0.8 * 1.5, 0.4 * 1.5))
    assert found.batches[0].most == pytest.approx(1.5), "but the batch does not wait for it"


@pytest.mark.parametrize(
    ("trigger_ms", "usable"), [(None, 0.9), (10_000, 0.9), (2000, 0.75), (500, 0.5)]
)
def test_the_stages_of_a_query_may_work_for_what_its_trigger_leaves(
    trigger_ms: float | None, usable: float
) -> None:
    nodes = executors(2)
    found = observed(BATCHES, nodes)
    queries = {name: replace(each, trigger_ms=trigger_ms) for name, each in found.queries.items()}
    made = problem_of(replace(found, queries=queries), seen(BATCHES, nodes), GOAL)
    assert made is not None
    (batch,) = made.batches
    assert batch.operators == ("query/0", "query/1")
    assert batch.most == pytest.approx(usable / 0.9), "500 ms of a batch are outside its stages"


def test_the_wait_for_slots_of_others_is_not_time_outside_the_stages() -> None:
    nodes = executors(1)
    batch = looked(0, {0: "0"}, run_ms={0: 400.0}, rows={0: 40}, duration_ms=900)
    assert outside_ms(batch, nodes) == 500
    assert outside_ms(replace(batch, waited_ms=300.0), nodes) == 200


# Executors that might come, and what they cost


def test_executors_that_might_come_are_nodes_too() -> None:
    found = problem(Replication(response_ms=2000, cold_ms=700), most=5)
    assert [each.name for each in found.nodes] == [
        SOURCE,
        *("0", "1", "2"),
        *(f"newcomer {number}" for number in range(2)),
    ]
    assert [each.spawn_ms for each in found.nodes] == [0, 0, 0, 0, 700, 700]
    assert "newcomer 0" in (operator(found, "query/1").nodes or ())


def test_no_more_might_come_than_replicas_could_use() -> None:
    most_replicas = Replication(response_ms=2000, max_replicas=2)
    assert len(problem(most_replicas, most=100).nodes) == 1 + 3 + 2 * 2
    assert len(problem(Replication(response_ms=2000, max_replicas=50), most=100).nodes) == 1 + 3 + 8


def test_a_cold_executor_pays_for_its_first_state() -> None:
    found = problem(Replication(response_ms=2000, cold_ms=700), nodes=executors(3, cold="2"))
    assert [each.spawn_ms for each in found.nodes] == [0, 0, 0, 700]


def test_an_executor_costs_its_price_while_it_holds_anything() -> None:
    found = problem(Replication(response_ms=2000, executor_price=3.0, replica_price=0.5))
    one = {**(found.current or {}), "query/1": ("0",)}
    assert evaluate(found, one).cost == 3 + 2 * 0.5
    two = {**(found.current or {}), "query/1": ("0", "1")}
    assert evaluate(found, two).cost == 2 * 3 + 3 * 0.5


def test_prices_may_differ_by_host() -> None:
    goal = Replication(response_ms=2000, executor_price={"host0": 1.0, "host1": 5.0})
    found = problem(goal, nodes=executors(3, hosts=["host0", "host1", "elsewhere"]), most=4)
    prices = {each.name: each.price for each in found.nodes}
    dearest = 5.0
    assert prices == {
        SOURCE: 0,
        "0": 1.0,
        "1": 5.0,
        "2": dearest,
        "newcomer 0": dearest,
    }, "what is not known counts as the dearest"


def test_the_bound_on_cost_is_what_all_would_cost_where_none_is_given() -> None:
    assert problem(Replication(response_ms=7, downtime_ms=9)).bounds == Bounds(7, 3.0, 9)
    assert problem(Replication(response_ms=7, cost=2.5)).bounds.cost == 2.5


def test_the_weights_of_one_plan_may_be_others() -> None:
    assert problem().weights == GOAL.weights
    assert problem(weights=Weights(1, 0, 0)).weights == Weights(1, 0, 0)


# Pins


PINNED = Replication(response_ms=2000, pins={"query": ["host2"], "query/1": ["host0", "host1"]})


def test_pinned_operators_may_be_on_their_hosts_alone() -> None:
    found = problem(PINNED, nodes=executors(3, hosts=True), most=5)
    assert operator(found, "query/1").nodes == ("0", "1")
    assert operator(found, "query/0").nodes == ("2",), "and on no executor that might come"


def test_an_operator_that_is_not_where_it_is_pinned_to_is_to_move_there() -> None:
    found = problem(PINNED, nodes=executors(3, hosts=True))
    assert found.current == {
        "query/source": (SOURCE,),
        "query/0": ("2",),
        "query/1": ("0", "1"),
    }, "as if it were there: whatever it takes, it has to be"


def test_replicas_outside_their_hosts_go_and_those_inside_may_stay() -> None:
    goal = Replication(response_ms=2000, pins={"query/1": ["host1"]})
    found = problem(goal, nodes=executors(3, hosts=True))
    assert found.current is not None
    assert found.current["query/1"] == ("1",)
    assert operator(found, "query/1").max_replicas == 1


def test_of_too_many_pinned_replicas_the_one_with_most_state_stays() -> None:
    goal = Replication(response_ms=2000, pins={"query/1": ["host0", "host1"]}, max_replicas=1)
    nodes = executors(3, hosts=True)
    batches = scene({0: "0", 1: "0111"}, run_ms=RUN_MS, rows=ROWS)
    found = problem_of(observed(batches, nodes), seen(batches, nodes), goal)
    assert found is not None
    assert found.current is not None
    assert found.current["query/1"] == ("1",)


def test_an_operator_whose_hosts_are_gone_may_be_anywhere_until_one_is_back() -> None:
    goal = Replication(response_ms=2000, pins={"query/1": ["host9"]})
    found = problem(goal, nodes=executors(3, hosts=True))
    assert operator(found, "query/1").nodes == ("0", "1", "2")


# What was measured


def test_delays_between_hosts_are_those_of_their_executors() -> None:
    nodes = executors(3, hosts=True)
    apart = {("host0", "host1"): 10.0, ("host1", "host0"): 10.0, ("host0", "host2"): 30.0}
    delay = problem(nodes=nodes, round_trips_ms=apart).links.delay_ms
    assert (delay[1][2], delay[2][1], delay[1][3], delay[2][3]) == (10, 10, 30, 0)
    assert delay[0] == (0, 10, 10, 30), "the source runs anywhere: the furthest counts"


def test_an_executor_that_might_come_is_as_far_as_hosts_are_from_each_other() -> None:
    nodes = executors(2, hosts=True)
    apart = {("host0", "host1"): 10.0, ("host1", "host0"): 20.0, ("host0", "host0"): 0.0}
    delay = problem(nodes=nodes, round_trips_ms=apart, most=3).links.delay_ms
    assert (delay[1][3], delay[3][1], delay[3][3]) == (15, 15, 0)


def test_rows_to_another_host_may_cost() -> None:
    nodes = executors(3, hosts=["here", "here", "there"])
    apart = {("here", "there"): 5.0, ("there", "here"): 5.0}
    goal = Replication(response_ms=2000, link_price=0.25)
    cost = problem(goal, nodes=nodes, round_trips_ms=apart).links.cost
    assert (cost[1][2], cost[1][3], cost[3][1]) == (0, 0.25, 0.25)


def test_cores_and_measured_speeds_make_an_executor_faster() -> None:
    nodes = executors(3, cores=[1, 1, 4])
    even = problem(nodes=nodes)
    assert [each.speedup for each in even.nodes[1:]] == pytest.approx([0.5, 0.5, 2.0])
    known = Experience(speeds={"0": 0.5, "1": 1.5})
    found = problem(nodes=nodes, experience=known)
    assert [each.speedup for each in found.nodes[1:]] == pytest.approx([0.25, 0.75, 2.0])


def test_what_moves_have_shown_replaces_the_settings() -> None:
    goal = Replication(response_ms=2000, sync_ms=11, load_bytes_per_s=22, cold_ms=33)
    nodes = executors(3, cold="2")
    before = problem(goal, nodes=nodes)
    known = Experience(loads=((8e6, 1000.0),) * 3, syncs=(70.0, 80.0, 900.0), starts=(44.0,))
    after = problem(goal, nodes=nodes, experience=known)
    reports = [
        (found.sync_ms, found.datastore.bytes_per_s[0], node(found, "2").spawn_ms)
        for found in (before, after)
    ]
    assert reports == [(11, 22, 33), (80.0, pytest.approx(8e6), 44.0)]


# Latency


def test_a_line_is_fitted_once_the_rates_have_differed_enough() -> None:
    nodes = executors(2)
    points: Any = {}
    for number in range(20):
        rows = 100 + 20 * number
        batch = looked(
            number, {1: "01"}, run_ms={1: 2 * (50 + rows)}, rows={1: rows}, duration_ms=900
        )
        points = with_batch(points, batch, nodes)
    last = looked(21, {1: "01"}, run_ms={1: 1100}, rows={1: 500})
    loads = operator_loads(observed([batch, last], nodes))
    assert loads is not None
    model = latency_of(loads[0], points, "fitted", interval_ms=1000, demand=1, slots=1)
    assert isinstance(model, Polynomial)
    assert model.coefficients == pytest.approx((50, 2))
    few = latency_of(loads[0], {}, "fitted", interval_ms=1000, demand=1, slots=1)
    assert isinstance(few, Polynomial)
    assert few.coefficients[0] == 0
    queue = latency_of(loads[0], points, "queue", interval_ms=1000, demand=1, slots=1)
    assert isinstance(queue, Queue)
    assert queue.service_rate == pytest.approx(loads[0].rows_per_s / loads[0].work)


def test_an_operator_without_rows_takes_no_time_that_replicas_could_share() -> None:
    nodes = executors(2)
    loads = operator_loads(observed(scene({1: "01"}, run_ms={1: 0.0}, rows={1: 0}), nodes))
    assert loads is not None
    model = latency_of(loads[0], {}, "queue", interval_ms=1000, demand=1, slots=1)
    assert model == Polynomial((0.0,))


# Settings


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"response_ms": 0}, "goal.response_ms: 0 is not positive; give more than zero"),
        ({"downtime_ms": 0}, "goal.downtime_ms: 0 is not positive; give more than zero"),
        ({"cost": 0}, "goal.cost: 0 is not positive; give more than zero"),
        ({"max_replicas": 0}, "goal.max_replicas: 0 is too small; the least is 1"),
        ({"max_replicas": {"q": 0}}, "goal.max_replicas['q']: 0 is too small; the least is 1"),
        ({"pins": {"q": "host0"}}, "goal.pins['q']: 'host0' is not a list of hosts"),
        ({"pins": {"q/0": []}}, "goal.pins['q/0']: [] is not a list of hosts"),
        ({"executor_price": -1}, "goal.executor_price: -1 is negative"),
        ({"executor_price": {"h": "dear"}}, "goal.executor_price['h']: 'dear' is not a number"),
        ({"replica_price": -1}, "goal.replica_price: -1 is negative"),
        ({"link_price": -1}, "goal.link_price: -1 is negative"),
        ({"replicas_an_executor": 0}, "goal.replicas_an_executor: 0 is too small"),
        ({"weights": Weights(0, 0, 1)}, "goal.weights: response and cost are both 0"),
        ({"weights": Weights(1, -1, 1)}, "goal.weights.cost: -1 is negative"),
        ({"latency": "m/m/1"}, "goal.latency: 'm/m/1' is not one; use fitted or queue"),
        ({"downtime": "stop"}, "goal.downtime: 'stop' is not one; use pause or restart"),
        ({"period_s": -1}, "goal.period_s: -1 is negative"),
        ({"patience": 0}, "goal.patience: 0 is too small"),
        ({"cooldown_s": -1}, "goal.cooldown_s: -1 is negative"),
        ({"probes": -1}, "goal.probes: -1 is too small"),
        ({"tau": -0.1}, "goal.tau: -0.1 is negative"),
        ({"load_bytes_per_s": 0}, "goal.load_bytes_per_s: 0 is not positive; give more than zero"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(ProblemError) as raised:
        Replication(**{"response_ms": 1000, **fields})
    assert str(raised.value).startswith(line)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"pins": {"q": ["host0", "nowhere"]}}, "goal.pins['q']: host 'nowhere' has no executor"),
        (
            {"executor_price": {"nowhere": 1.0}},
            "goal.executor_price: host 'nowhere' has no executor; hosts are host0, host1",
        ),
    ],
)
def test_hosts_that_do_not_exist_are_refused_at_the_start(
    fields: dict[str, Any], line: str
) -> None:
    goal = Replication(response_ms=1000, **fields)
    with pytest.raises(ProblemError) as raised:
        goal.check_start(0, executors(2, hosts=True))
    assert str(raised.value).startswith(line)


def test_hosts_that_exist_are_taken() -> None:
    goal = Replication(response_ms=1000, pins={"q": ["host0"]}, executor_price={"host1": 1.0})
    goal.check_start(0, executors(2, hosts=True))


def test_its_name_shows_its_bound_and_weights() -> None:
    assert GOAL.name == "replication within 2000 ms a row, weights 0.3/0.3/0.4"
