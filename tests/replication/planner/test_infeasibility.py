from __future__ import annotations

from dataclasses import replace

import pytest
from tests.replication.planner.test_evaluation import CHAIN

from elastream.model.plan import Infeasible
from elastream.replication.model.latency import Queue
from elastream.replication.model.problem import Bounds, Operator, ReplicationProblem, Stream
from elastream.replication.planner.exact import replication


def reason(problem: ReplicationProblem) -> str:
    plan = replication(problem)
    assert isinstance(plan, Infeasible)
    return plan.reason


def test_an_operator_that_no_number_of_replicas_can_serve_is_named() -> None:
    overloaded = replace(CHAIN, operators=(CHAIN.operators[0], Operator("count", Queue(40))))
    assert reason(overloaded) == ("operator count is saturated at 100 tuples a second by 1 replica")


def test_an_operator_whose_nodes_have_no_room_is_named() -> None:
    large = replace(CHAIN.operators[1], resources=2.5)
    assert reason(replace(CHAIN, operators=(CHAIN.operators[0], large))) == (
        "operator count needs 1 replica of 2.5 resources at least, and its nodes have no room for "
        "that"
    )


def test_operators_that_do_not_fit_together_are_a_matter_of_capacity() -> None:
    pinned = tuple(replace(o, nodes=("a",), resources=1.5) for o in CHAIN.operators)
    assert reason(replace(CHAIN, operators=pinned)).startswith(
        "the operators do not fit on the nodes they may run on"
    )


@pytest.mark.parametrize(
    ("bounds", "start"),
    [
        (
            Bounds(13, 20, 9e9),
            "the bound response_ms is 13, and no deployment that fits the nodes ",
        ),
        (Bounds(200, 1.5, 9e9), "the bound cost is 1.5, and no deployment that fits the nodes "),
        (Bounds(22, 2.5, 9e9), "the bounds response_ms 22 and cost 2.5 cannot be met together"),
    ],
)
def test_the_bound_that_cannot_be_met_is_named(bounds: Bounds, start: str) -> None:
    assert reason(replace(CHAIN, bounds=bounds)).startswith(start)


def test_a_change_that_takes_too_long_is_named() -> None:
    crowded = replace(
        CHAIN,
        nodes=(replace(CHAIN.nodes[0], resources=1), *CHAIN.nodes[1:]),
        operators=(
            replace(CHAIN.operators[0], nodes=("a",)),
            replace(CHAIN.operators[1], nodes=("b", "c")),
        ),
        current={"source": ("a",), "count": ("b",)},
        streams=(Stream("source", "count", 150),),
        bounds=Bounds(900, 90, 100),
    )
    assert reason(crowded) == (
        "operator count must change, which takes 250 ms, and the bound downtime_ms is 100"
    )


def test_a_restricted_problem_says_that_one_replica_is_not_enough() -> None:
    far = replace(
        CHAIN,
        operators=(CHAIN.operators[0], replace(CHAIN.operators[1], max_replicas=4)),
        current={"source": ("a",), "count": ("b",)},
        streams=(Stream("source", "count", 180),),
        restricted=True,
    )
    assert not isinstance(replication(far), Infeasible)
    slower = replace(
        far, operators=(far.operators[0], replace(far.operators[1], latency=Queue(60)))
    )
    assert reason(slower) == (
        "operator count is saturated at 180 tuples a second by 2 replicas, the most within one "
        "change"
    )
