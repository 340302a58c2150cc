from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import PATIENCE_S, RunningQuery, running
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state, join, numbers

from elastream import (
    NotPlaced,
    Placed,
    ProblemError,
    QueryRefusedError,
    measure,
    place,
)
from elastream.model.resilience.problem import ResilientProblem
from elastream.planners.resilient.planner import resilient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4


def test_a_report_says_what_is_not_in_place_and_why() -> None:
    lost = NotPlaced("counts/0/3", "2", "1", "not obeyed in 4 batches")
    report = Placed(("1", "2"), pairs=8, moved=3, not_placed=(lost,))
    assert not report.holds
    assert str(report).splitlines() == [
        "7 of 8 pairs are in place, 3 of them moved",
        "counts/0/3 is on executor 1, not on executor 2: not obeyed in 4 batches",
    ]


@pytest.fixture(scope="module")
def counting(spark: SparkSession) -> Iterator[RunningQuery]:
    with running(aggregation(spark), mode="update") as run:
        yield run


def test_a_plan_is_carried_out_in_the_running_query(counting: RunningQuery) -> None:
    load = [[3, 0], [2, 0], [0, 4], [0, 1]]
    plan = resilient(ResilientProblem.of(load, [1, 1]), "rod")
    assert plan.status == "feasible"
    placed = place([counting.query], plan, timeout_s=PATIENCE_S)
    assert placed.holds, str(placed)
    assert placed.executors == tuple(counting.executor_ids())
    counting.pass_batches(1)
    where = {task.task.partition: task.executor for task in counting.told[-1].tasks}
    assert where == {p: placed.executors[node] for p, node in enumerate(plan.allocation)}
    again = place([counting.query], plan, timeout_s=PATIENCE_S)
    assert (again.holds, again.moved) == (True, 0)


def test_a_plan_that_does_not_fit_is_refused_and_nothing_moves(counting: RunningQuery) -> None:
    before = counting.placement.where()
    name = counting.query.name
    with pytest.raises(ProblemError) as raised:
        place([counting.query], [0] * 5)
    assert str(raised.value) == (
        f"plan: places 5 operators; the queries have 4 pairs ({name} {PARTITIONS})"
    )
    with pytest.raises(ProblemError, match="plan: needs 6 nodes; there are 2 executors"):
        place([counting.query], [0, 5, 0, 1])
    with pytest.raises(ProblemError, match=r"plan\[1\]: -1 is too small"):
        place([counting.query], [0, -1, 0, 1])
    unused_node = resilient(ResilientProblem.of([[1], [1], [1], [1]], [1, 1, 1]))
    assert unused_node.status == "feasible"
    with pytest.raises(ProblemError, match="plan: needs 3 nodes; there are 2 executors"):
        place([counting.query], unused_node)
    assert counting.placement.where() == before


def test_queries_that_cannot_be_placed_or_measured_are_refused_in_one_line(
    spark: SparkSession, counting: RunningQuery
) -> None:
    for refused in (lambda q: place(q, [0] * 4), measure):
        with pytest.raises(QueryRefusedError, match="there is no query"):
            refused([])
        with pytest.raises(QueryRefusedError, match=f"{counting.query.name} is given twice"):
            refused([counting.query] * 2)
    with pytest.raises(ProblemError, match="inputs: has 2 names; there are 1 queries"):
        measure([counting.query], ["a", "b"])
    stateless = numbers(spark).writeStream.format("noop").start()
    try:
        with pytest.raises(QueryRefusedError, match="keeps no state"):
            place([stateless], [0])
    finally:
        stateless.stop()
    with pytest.raises(QueryRefusedError, match="is not running"):
        place([counting.query, stateless], [0] * PARTITIONS)
    assert counting.query.isActive


@pytest.mark.slow
def test_a_query_that_joins_is_not_measured(spark: SparkSession) -> None:
    with running(join(spark), mode="append") as run:
        with pytest.raises(QueryRefusedError, match="its load is no sum over inputs"):
            measure([run.query])
        assert run.query.isActive


def test_results_stay_exact_when_state_is_placed(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update") as run:
        for nodes in ([0, 0, 0, 0], [1, 0, 1, 0]):
            placed = place([run.query], nodes, timeout_s=PATIENCE_S)
            assert placed.holds, str(placed)
        run.query.stop()
        answer = aggregation_answer(run.committed_rows())
        assert aggregation_state(spark, str(run.checkpoint)) == answer


@pytest.mark.slow
def test_an_operator_that_reads_another_one_is_measured_by_what_that_puts_out(
    spark: SparkSession,
) -> None:
    from pyspark.sql import functions as f

    timed = numbers(spark).withWatermark("timestamp", "1 second")
    inner = timed.groupBy(f.window("timestamp", "2 seconds"), (f.col("value") % 40).alias("key"))
    outer = (
        inner.count().groupBy(f.window(f.window_time("window"), "2 seconds")).agg(f.sum("count"))
    )
    with running(outer, mode="append") as run:
        graph = measure([run.query], ["numbers"], batches=8, timeout_s=PATIENCE_S).graph
    operators = {operator.name.split("/", 1)[1]: operator for operator in graph.operators}
    readers = {number for number in "01" if "numbers" not in operators[f"{number}/0"].inputs}
    (last,) = readers
    (first,) = {"0", "1"} - readers
    name = run.query.name
    assert operators[f"{last}/0"].inputs == tuple(f"{name}/{first}/{p}" for p in range(PARTITIONS))
    out = sum(float(operators[f"{first}/{p}"].selectivity or 0) for p in range(PARTITIONS))
    assert out == pytest.approx(40 / (2 * 200), rel=0.5), "40 keys for each window of 400 rows"
