from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control.replication.scenes import CHAIN, executors, load_of, looked, observed

from elastream.control.replication.analyse import SOURCE, Observed, problem_of
from elastream.control.replication.graph import operator_loads
from elastream.control.replication.latency import latency_of, with_batch
from elastream.control.replication.policy import ReplicationPolicy
from elastream.model.errors import ProblemError
from elastream.model.replication.latency import Polynomial, Queue
from elastream.model.replication.problem import ReplicationProblem, Weights
from elastream.planners.replication.evaluation import evaluate

POLICY = ReplicationPolicy(response_ms=2000)
WHERE = {0: "00", 1: "0011"}
RUN = {0: 100.0, 1: 800.0}
ROWS = {0: 40, 1: 200}


def problem(policy: ReplicationPolicy = POLICY, **scene: object) -> ReplicationProblem:
    told = {"nodes": executors(3), "run_ms": RUN, "rows": ROWS, **scene}
    found = problem_of(observed(WHERE, **told), policy)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_operators_are_those_with_state_and_one_that_nobody_steers() -> None:
    found = problem()
    assert [operator.name for operator in found.operators] == [SOURCE, "operator 0", "operator 1"]
    ends = [(stream.source, stream.target) for stream in found.streams]
    assert ends == [("operator 1", "operator 0"), (SOURCE, "operator 1")]
    assert [stream.rate for stream in found.streams] == pytest.approx([40, 200])
    assert found.current == {SOURCE: (SOURCE,), "operator 0": ("0",), "operator 1": ("0", "1")}
    assert found.distinct
    assert SOURCE not in found.allowed_nodes(found.operators[1])


def test_the_deployment_that_is_there_is_worth_what_the_batches_took() -> None:
    found = problem(duration_ms=1000.0)
    worth = evaluate(found, found.current or {})
    assert worth.faults == ()
    busiest = 100 + 400
    assert worth.response_ms == pytest.approx((1000 - busiest) + 100 + 400)
    assert worth.cost == 3


@given(st.integers(1, 3))
def test_replicas_share_the_time_of_their_stage(replicas: int) -> None:
    found = problem()
    deployment = {**(found.current or {}), "operator 1": ("0", "1", "2")[:replicas]}
    worth = evaluate(found, deployment)
    assert worth.response_ms == pytest.approx(500 + 100 + 800 / replicas)


def test_an_operator_never_has_more_replicas_than_partitions() -> None:
    assert [operator.max_replicas for operator in problem().operators] == [1, 2, 3]
    few = ReplicationPolicy(response_ms=2000, max_replicas=1)
    assert [o.max_replicas for o in problem(few).operators] == [1, 1, 2], "what is there may stay"


def test_delays_between_hosts_are_those_of_their_executors() -> None:
    nodes = executors(3, hosts=True)
    apart = {("host0", "host1"): 10.0, ("host1", "host0"): 10.0, ("host0", "host2"): 30.0}
    found = problem(nodes=nodes, round_trips_ms=apart)
    delay = found.links.delay_ms
    assert (delay[1][2], delay[2][1], delay[1][3], delay[2][3]) == (10, 10, 30, 0)
    assert delay[0] == (0, 10, 10, 30), "the source runs anywhere: the furthest counts"


def test_a_backlog_makes_the_rates_higher_than_what_is_worked_off() -> None:
    nodes = executors(2)
    batches = [
        looked(number, WHERE, run_ms=RUN, rows=ROWS, backlog=200 * number) for number in range(6)
    ]
    seen = Observed(load_of(batches, nodes), nodes, CHAIN, {}, 500.0, {})
    found = problem_of(seen, POLICY)
    assert found is not None
    assert found.streams[1].rate > 350


def test_nothing_is_planned_while_a_task_has_not_been_measured_or_is_homeless() -> None:
    nodes = executors(2)
    first = looked(0, WHERE, run_ms=RUN, rows=ROWS)
    assert problem_of(Observed(load_of([], nodes), nodes, CHAIN, {}, 500.0, {}), POLICY) is None
    gone = Observed(load_of([first], nodes), nodes[:1], CHAIN, {}, 500.0, {})
    assert problem_of(gone, POLICY) is None


def test_a_line_is_fitted_once_the_rates_have_differed_enough() -> None:
    nodes = executors(2)
    points: dict[int, tuple[tuple[float, float], ...]] = {}
    for number in range(20):
        rows = 100 + 20 * number
        batch = looked(
            number, {1: "01"}, run_ms={1: 2 * (50 + rows)}, rows={1: rows}, duration_ms=900
        )
        points = with_batch(points, batch, nodes)
    loads = operator_loads(
        load_of([batch, looked(21, {1: "01"}, run_ms={1: 1100}, rows={1: 500})], nodes), nodes
    )
    assert loads is not None
    model = latency_of(loads[0], points, "fitted", interval_ms=1000, demand=1, cores=1)
    assert isinstance(model, Polynomial)
    assert model.coefficients == pytest.approx((50, 2))
    few = latency_of(loads[0], {}, "fitted", interval_ms=1000, demand=1, cores=1)
    assert isinstance(few, Polynomial)
    assert few.coefficients[0] == 0
    queue = latency_of(loads[0], points, "queue", interval_ms=1000, demand=1, cores=1)
    assert isinstance(queue, Queue)
    assert queue.service_rate == pytest.approx(loads[0].rows_per_s / loads[0].work)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"response_ms": 0}, "response_ms: 0 is not positive"),
        ({"max_replicas": 0}, "max_replicas: 0 is too small"),
        ({"weights": Weights(0, 0, 1)}, "weights: response and cost are both 0"),
        ({"planner": "best"}, "planner: 'best' is not one; use single-step or free-step"),
        ({"latency": "m/m/1"}, "latency: 'm/m/1' is not one; use fitted or queue"),
        ({"period_s": -1}, "period_s: -1 is negative"),
    ],
)
def test_a_wrong_policy_names_its_field(fields: dict[str, object], line: str) -> None:
    with pytest.raises(ProblemError) as raised:
        ReplicationPolicy(**{"response_ms": 1000, **fields})  # type: ignore[arg-type]
    assert str(raised.value).startswith(line)
