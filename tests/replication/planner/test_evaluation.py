from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.planner.generated import generated

from elastream.replication.model.latency import Polynomial, Queue
from elastream.replication.model.problem import (
    Bounds,
    Datastore,
    Links,
    Node,
    Operator,
    ReplicationProblem,
    Stream,
    Weights,
)
from elastream.replication.planner.configurations import Configurations, configurations_of
from elastream.replication.planner.evaluation import evaluate

CHAIN = ReplicationProblem(
    operators=(
        Operator("source", Queue(200), cost=1, max_replicas=1),
        Operator("count", Queue(110), 1000, 300_000, cost=2, resources=0.5, max_replicas=2),
    ),
    streams=(Stream("source", "count", 100),),
    nodes=(Node("a", 2, 1, 500), Node("b", 2, 0.5, 400), Node("c", 2, 2, 300)),
    links=Links(
        ((0, 12, 30), (14, 0, 20), (30, 20, 0)),
        ((0, 0.02, 0.04), (0.02, 0, 0.01), (0.04, 0.01, 0)),
    ),
    datastore=Datastore((5, 5, 10), (10_000, 10_000, 20_000)),
    sync_ms=250,
    bounds=Bounds(200, 20, 10_000),
    weights=Weights(1, 1, 2),
)


def test_response_time_is_the_critical_path_over_the_slowest_replicas() -> None:
    worth = evaluate(CHAIN, {"source": ("a",), "count": ("b", "c")})
    assert worth.response_ms == pytest.approx(1000 / 100 + 30 + 1000 / 60 / 0.5)


def test_cost_is_replicas_and_the_mean_cost_of_the_links_between_them() -> None:
    worth = evaluate(CHAIN, {"source": ("a",), "count": ("b", "c")})
    assert worth.cost == pytest.approx(1 + 2 * 2 * 0.5 + 100 * (0.02 + 0.04) / 2)


def test_the_objective_scales_the_weights_that_count() -> None:
    worth = evaluate(CHAIN, {"source": ("a",), "count": ("a", "a")})
    assert worth.response_ms is not None
    expected = 0.5 * worth.response_ms / 200 + 0.5 * worth.cost / 20
    assert worth.objective == pytest.approx(expected)
    moved = replace(CHAIN, current={"source": ("a",), "count": ("a",)})
    again = evaluate(moved, {"source": ("a",), "count": ("a", "a")})
    assert again.downtime_ms == 250
    expected = 0.25 * worth.response_ms / 200 + 0.25 * worth.cost / 20 + 0.5 * 250 / 10_000
    assert again.objective == pytest.approx(expected)


def test_a_saturated_operator_has_no_response_time() -> None:
    overloaded = replace(CHAIN, streams=(Stream("source", "count", 110),))
    worth = evaluate(overloaded, {"source": ("a",), "count": ("b",)})
    assert (worth.objective, worth.response_ms) == (None, None)
    assert worth.faults == ("operator count is saturated",)


def test_everything_that_is_not_allowed_is_named() -> None:
    strict = replace(
        CHAIN,
        operators=(CHAIN.operators[0], replace(CHAIN.operators[1], nodes=("b",), resources=1.5)),
        current={"source": ("a",), "count": ("b",)},
        restricted=True,
        bounds=Bounds(1, 1, 1),
    )
    worth = evaluate(strict, {"source": ("a",), "count": ("c", "c", "c")})
    assert [fault.split(" above")[0].split(", not")[0] for fault in worth.faults] == [
        "operator count has 3 replicas",
        "operator count may not run on c",
        "operator count may not run on c",
        "operator count may not run on c",
        "operator count changes by more than one replica",
        "node c has 2 resources",
        f"response_ms is {worth.response_ms:g},",
        f"cost is {worth.cost:g},",
        f"downtime_ms is {worth.downtime_ms:g},",
    ]


def test_every_sink_and_every_lonely_operator_counts_for_the_response_time() -> None:
    lonely = Operator("lonely", Polynomial((500,)))
    worth = evaluate(
        replace(CHAIN, operators=(*CHAIN.operators, lonely)),
        {"source": ("a",), "count": ("a",), "lonely": ("b",)},
    )
    assert worth.response_ms == 1000


def down(
    new: tuple[str, ...],
    *,
    old: tuple[str, ...] = ("a",),
    engine: Literal["pause", "restart"] = "pause",
) -> float:
    problem = replace(
        CHAIN,
        operators=(CHAIN.operators[0], replace(CHAIN.operators[1], max_replicas=3)),
        current={"source": ("a",), "count": old},
        downtime=engine,
        local_bytes_per_s=(4000, 4000, 4000) if engine == "restart" else None,
    )
    return evaluate(problem, {"source": ("a",), "count": new}).downtime_ms


def test_staying_costs_no_downtime() -> None:
    assert down(("a",)) == 0
    assert down(("b", "a"), old=("a", "b")) == 0
    assert down(("a",), engine="restart") == 0


def test_a_migration_waits_for_the_slower_of_code_and_upload_then_downloads_and_starts() -> None:
    code_ms, upload_ms, download_ms = 10 + 30_000, 10 + 100, 10 + 100
    assert down(("b",)) == 250 + max(code_ms, upload_ms) + download_ms + 400


def test_scaling_out_sends_a_share_of_the_state_to_the_new_replica() -> None:
    code_ms, download_ms = 20 + 15_000, 20 + 25
    assert down(("a", "c")) == 250 + code_ms + download_ms + 300


def test_scaling_in_sends_the_state_of_what_ends_to_what_stays() -> None:
    upload_ms, download_ms = 10 + 50, 20 + 25
    assert down(("c",), old=("a", "c")) == 250 + upload_ms + download_ms


def test_a_replica_next_to_all_others_costs_the_synchronisation_alone() -> None:
    assert down(("a", "a")) == 250


def test_a_restart_moves_one_phase_after_the_other_and_starts_every_replica() -> None:
    code_ms, upload_ms, download_ms = 10 + 30_000, 10 + 100, 10 + 100
    assert down(("b",), engine="restart") == 250 + code_ms + upload_ms + download_ms + 400
    assert down(("a", "a"), engine="restart") == 250 + 2 * 1000 * 1000 / 4000 + 500


@given(st.integers(0, 2**40))
@settings(max_examples=300)
def test_the_arrays_of_the_planner_say_what_the_evaluation_says(seed: int) -> None:
    problem = generated(seed)
    for i, operator in enumerate(problem.operators):
        found = configurations_of(problem, i)
        if not isinstance(found, Configurations) or problem.current is None:
            continue
        row = seed % len(found)
        new = tuple(problem.nodes[u].name for u in found.replicas(row))
        alone = evaluate(problem, {**problem.current, operator.name: new})
        assert found.downtime_ms[row] == pytest.approx(alone.downtime_ms, rel=1e-12, abs=1e-9)
        assert found.size[row] == len(new)
        assert np.array_equal(np.unique(found.nodes[row]), np.flatnonzero(found.count[row]))
