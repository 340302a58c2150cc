"""What is made of a trial run, on made batches whose costs are known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from elastream.model.errors import ElastreamError, QueryRefusedError, SparkError
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream.resilience.commands import resilient_problem
from elastream.resilience.model.costs import (
    QueryTrial,
    at_none,
    operators_of,
    outside_costs,
)
from elastream.resilience.model.problem import ResilientPlan, ResilientProblem
from elastream.resilience.planner.planner import resilient
from elastream.resilience.spark.measure import _measured
from elastream.spark.internals.queries import StatefulOperator
from elastream.spark.observe.task_events import operator_graph, tasks_of

SECOND_MS = 1000.0


def problem_of_fields(fields: dict[str, Any]) -> ResilientProblem:
    return resilient_problem(json.loads(json.dumps(fields)))[0]


def operator(number: int, **more: object) -> StatefulOperator:
    given = {"sources": ((0, 0),), **more}
    return StatefulOperator(number, ("default",), 2, "file:/state", "run", number, **given)  # type: ignore[arg-type]


def batch(
    tasks: list[TaskObservation], source_rows: tuple[int, ...], outside_ms: dict[str, float],
    every_ms: float = SECOND_MS,
) -> BatchObservation:  # fmt: skip
    return BatchObservation(
        "q", "run", 0, 900.0, sum(source_rows), None, 0, every_ms, tuple(tasks), outside_ms,
        source_rows,
    )  # fmt: skip


def task(
    partition: int, run_ms: float, rows: int, *, operator: int = 0, out: int | None = None,
    state: int = 0, sides: tuple[int, int] | None = None, fetched: float = 0.0,
    fetch_ms: float = 0.0,
) -> TaskObservation:  # fmt: skip
    name = TaskId("q", operator, partition)
    return TaskObservation(name, "1", run_ms, rows, state, 0, out, sides, fetched, fetch_ms)


def trial(
    operators: list[StatefulOperator],
    batches: list[BatchObservation],
    streams: tuple[str, ...] = ("s",),
    scans: tuple[int, ...] | None = None,
    states: dict[int, tuple[int, int]] | None = None,
    trigger_s: float | None = None,
) -> QueryTrial:
    known = scans or (1,) * len(streams)
    return QueryTrial(
        "q",
        operator_graph(operators),
        tasks_of("q", operators),
        streams,
        known,
        tuple(batches),
        states or {},
        trigger_s,
    )


@pytest.mark.parametrize("constant", [0.0, 30.0])
def test_the_constant_of_a_line_through_points_is_found(constant: float) -> None:
    points = [(x, constant + 2 * x) for x in (10.0, 20.0, 50.0)]
    assert at_none(points, most=100) == pytest.approx(constant)


def test_a_line_has_nothing_negative_and_no_more_than_is_allowed() -> None:
    assert at_none([(10.0, 5.0), (20.0, 25.0)], most=100) == 0
    assert at_none([(10.0, 50.0), (20.0, 40.0)], most=30) == 30


def test_rows_that_never_change_tell_nothing_of_a_task_without_any() -> None:
    assert at_none([(10.0, 50.0)] * 4, most=50) == 0


def test_the_cost_of_a_task_is_distinguished_from_that_of_a_row() -> None:
    rows = [(100, 300), (200, 500), (400, 900)]
    batches = [
        batch([task(p, 40 + 0.5 * n, n, out=n // 2) for p, n in enumerate(each)], (sum(each),), {})
        for each in rows
    ]
    found = operators_of(trial([operator(0)], batches))
    total = sum(map(sum, rows))
    assert [each.name for each in found] == ["q/0/0", "q/0/1"]
    for partition, each in enumerate(found):
        own = sum(pair[partition] for pair in rows)
        assert each.inputs == ("s",)
        assert each.fixed == pytest.approx(0.040), "once a second"
        assert each.cost == pytest.approx(0.0005 * own / total)
        assert each.selectivity == pytest.approx(own / 2 / total)


@pytest.mark.parametrize(
    ("trigger_s", "every_s"),
    [
        pytest.param(2.0, 2.0, id="a batch at every trigger"),
        pytest.param(None, 4.0, id="as in the trial without an interval"),
        pytest.param(0.5, 4.0, id="as in the trial where batches take longer than the interval"),
    ],
)
def test_triggers_without_rows_in_the_trial_are_not_taken_to_stay_so(
    trigger_s: float | None, every_s: float
) -> None:
    batches = [
        batch([task(p, 40 + 0.5 * n, n) for p in (0, 1)], (2 * n,), {"1": 20 + 2 * n}, 4000.0)
        for n in (100, 200, 400)
    ]
    seen = trial([operator(0)], batches, trigger_s=trigger_s)
    assert [each.fixed for each in operators_of(seen)] == pytest.approx([0.040 / every_s] * 2)
    assert [each.cost for each in operators_of(seen)] == pytest.approx([0.00025] * 2)
    assert outside_costs(seen).at_any_rate == pytest.approx({"1": 0.020 / every_s})
    assert outside_costs(seen).by_row == pytest.approx({"1": 0.001})


def test_a_source_that_is_read_twice_has_its_rows_once() -> None:
    batches = [batch([task(p, 10, 5, out=1) for p in (0, 1)], (20,), {})] * 2
    found = operators_of(trial([operator(0)], batches, scans=(2,)))
    assert found[0].cost == pytest.approx(0.010 / 10)


def test_work_without_state_grows_with_rates_and_cannot_be_placed() -> None:
    tasks = [task(p, 10, 5, out=1) for p in (0, 1)]
    batches = [batch(tasks, (n,), {"1": 3 * (20 + n), "2": 20 + n}) for n in (100, 200, 600)]
    costs = outside_costs(trial([operator(0)], batches))
    assert costs.at_any_rate == pytest.approx({"1": 0.060, "2": 0.020})
    assert costs.by_row == pytest.approx({"1": 0.003, "2": 0.001})
    found = _measured(dict.fromkeys(("1", "2", "3"), 2), [trial([operator(0)], batches)])
    assert found.capacity == pytest.approx((1.94, 1.98, 2))
    assert [row[0] for row in found.unplaced] == pytest.approx([0.003, 0.001, 0])
    assert (found.rates[0], found.least_rates[0]) == pytest.approx((300, 100))
    assert found.fields(lower_bound=True)["lower_bound"] == [pytest.approx(100)]
    assert found.problem().unplaced == found.unplaced


def test_a_plan_places_tasks_by_name_whatever_the_order_of_the_queries() -> None:
    """The heavy query is given first, and its name is the last of the alphabet."""
    tasks = {
        name: [replace(task(p, ms, rows=10), task=TaskId(name, 0, p)) for p in (0, 1)]
        for name, ms in (("zeta", 80.0), ("alpha", 8.0))
    }
    trials = [
        replace(
            trial([operator(0)], [batch(tasks[name], (20,), {})]),
            name=name,
            tasks=tuple(each.task for each in tasks[name]),
            streams=(name,),
        )
        for name in tasks
    ]
    found = _measured({"7": 1, "3": 1}, trials)
    assert [str(name) for name in found.tasks] == [each.name for each in found.graph.operators]
    assert found.tasks[:2] == (TaskId("zeta", 0, 0), TaskId("zeta", 0, 1))
    plan = resilient(found.problem())
    assert isinstance(plan, ResilientPlan)
    assert plan.placement.keys() == set(found.tasks)
    for name in tasks:  # each query on both executors: no stream overloads one of them first
        assert {plan.placement[TaskId(name, 0, p)] for p in (0, 1)} == {"3", "7"}
    assert found.fields()["executors"] == ["7", "3"]
    assert found.fields()["tasks"][0] == {"query": "zeta", "operator": 0, "partition": 0}
    assert problem_of_fields(found.fields()) == found.problem()


def join(number: int = 0, **more: object) -> StatefulOperator:
    sources = more.pop("sources", ((0, 0), (1, 1)))
    return operator(number, read_steps=(45, 72), sources=sources, **more)


def joined(left: int, right: int, held: tuple[int, int], seconds: int) -> list[BatchObservation]:
    """Two partitions, a third and two thirds; each pair costs 10 us, and a tenth is put out."""
    found = []
    for _ in range(seconds):
        tasks = []
        for partition, part in enumerate((1, 2)):
            sides = left * part // 3, right * part // 3
            state = held[0] * part // 3, held[1] * part // 3
            pairs = 3 * (sides[0] * state[1] + sides[1] * state[0]) / part
            tasks.append(
                task(partition, pairs * 0.01, sum(sides), out=round(pairs / 10),
                     state=sum(state), sides=sides)
            )  # fmt: skip
        found.append(batch(tasks, (left, right), {}))
    return found


def test_a_join_is_counted_in_pairs_of_its_two_streams() -> None:
    # 300 rows a second stay for 4 s on the left, 60 for 10 s on the right
    batches = joined(300, 60, (1200, 600), seconds=5)
    found = operators_of(trial([join()], batches, ("a", "b"), states={0: (1200, 600)}))
    for each, part in zip(found, (1, 2), strict=True):
        assert (each.kind, each.inputs, each.left) == ("join", ("a", "b"), 1)
        assert each.window == pytest.approx(14)
        assert each.cost * 1e6 == pytest.approx(10 * part / 3)
        assert each.selectivity == pytest.approx(0.1 * part / 3, rel=1e-3)


def test_rows_stay_as_long_on_both_sides_where_state_was_not_counted() -> None:
    found = operators_of(trial([join()], joined(300, 60, (1200, 240), 5), ("a", "b")))
    assert found[0].window == pytest.approx(8)


def test_a_join_reads_all_partitions_of_what_feeds_it() -> None:
    first = operator(1, reader=0, side=1, sources=((0, 1),))
    batches = [
        batch([*each.tasks, *(task(p, 10, 30, operator=1, out=20) for p in (0, 1))], (300, 60), {})
        for each in joined(300, 60, (1200, 600), 5)
    ]
    reads_left = join(sources=((0, 0),))
    found = operators_of(trial([reads_left, first], batches, ("a", "b")))
    assert [each.name for each in found] == ["q/0/0", "q/0/1", "q/1/0", "q/1/1"]
    assert found[0].inputs == ("a", "q/1/0", "q/1/1")
    assert (found[0].left, found[2].kind, found[2].inputs) == (1, "linear", ("b",))


def test_waiting_for_rows_of_another_operator_is_transfer_and_no_cost_of_its_reader() -> None:
    second, first = operator(0, sources=()), operator(1, reader=0, sources=((0, 0),))
    tasks = [
        *(task(p, 50, 40, operator=1, out=40, fetched=10, fetch_ms=5) for p in (0, 1)),
        *(task(p, 30, 40, out=1, fetched=20, fetch_ms=10) for p in (0, 1)),
    ]
    found = _measured({"1": 1}, [trial([second, first], [batch(tasks, (80,), {})])])
    costs = {each.name: each.cost for each in found.graph.operators}
    assert costs["q/0/0"] == pytest.approx(0.020 / 80)
    assert costs["q/1/0"] == pytest.approx(0.050 / 80), "its rows come from an unknown place"
    assert found.graph.transfer_cost == pytest.approx(0.030 / 60 / 2), "a half for each reader"
    assert found.fields()["graph"]["transfer_cost"] == found.graph.transfer_cost


def three_streams() -> list[StatefulOperator]:
    inner = StatefulOperator(
        1, ("x",), 2, "r", "run", 0, rank=1, reader=0, sources=((0, 0), (1, 1)), read_steps=(1, 2)
    )
    outer = StatefulOperator(0, ("x",), 2, "r", "run", 0, sources=((1, 2),), read_steps=(1, 2))
    return [outer, inner]


@pytest.mark.parametrize(
    ("operators", "batches", "error", "line"),
    [
        (three_streams(), joined(9, 9, (9, 9), 1), QueryRefusedError, "joins more than two"),
        ([join()], joined(9, 0, (9, 9), 1), SparkError, "read no rows"),
        ([join()], joined(9, 9, (0, 0), 1), SparkError, "joined no rows in 1 batches"),
        ([operator(0)], [batch([task(0, 1, 1)], (1, 0), {})], SparkError, "reported nothing"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_one_line(
    operators: list[StatefulOperator],
    batches: list[BatchObservation],
    error: type[ElastreamError],
    line: str,
) -> None:
    with pytest.raises(error, match=line):
        operators_of(trial(operators, batches, ("a", "b", "c")[: len(batches[0].source_rows)]))
