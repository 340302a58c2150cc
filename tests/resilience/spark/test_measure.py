from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import PATIENCE_S, RunningQuery, running
from tests.spark.streams import (
    ROWS,
    aggregation,
    aggregation_answer,
    aggregation_state,
    join,
    numbers,
)

from elastream import ProblemError, QueryRefusedError
from elastream.model.observation import BatchObservation
from elastream.resilience import measure
from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner.planner import resilient
from elastream_lab.applications.traffic.placed_pairs import placed_pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4


@pytest.fixture(scope="module")
def counting(spark: SparkSession) -> Iterator[RunningQuery]:
    with running(aggregation(spark), mode="update") as run:
        run.attachment.detach()
        yield run


def test_a_plan_is_carried_out_in_the_running_query_and_results_stay_exact(
    spark: SparkSession,
) -> None:
    load = [[3, 0], [2, 0], [0, 4], [0, 1]]
    plan = resilient(ResilientProblem.of(load, [1, 1]), "rod")
    assert plan.status == "feasible"
    with running(aggregation(spark), mode="update") as run:
        run.attachment.detach()
        executors = [entry.id for entry in run.internals.executors()]
        placed = placed_pairs([run.query], plan.allocation, timeout_s=PATIENCE_S)
        assert placed.holds, str(placed)
        again = placed_pairs([run.query], plan.allocation, timeout_s=PATIENCE_S)
        assert (again.holds, again.moved) == (True, 0)
        run.query.stop()
        answer = aggregation_answer(run.committed_rows())
        assert aggregation_state(spark, str(run.checkpoint)) == answer
        assert len(executors) == 2


def test_a_plan_that_does_not_fit_is_refused(counting: RunningQuery) -> None:
    name = counting.query.name
    with pytest.raises(ProblemError) as raised:
        placed_pairs([counting.query], [0] * 5)
    assert str(raised.value) == (
        f"plan: places 5 operators; the queries have 4 pairs ({name} {PARTITIONS})"
    )
    with pytest.raises(ProblemError, match="plan: needs 6 nodes; there are 2 executors"):
        placed_pairs([counting.query], [0, 5, 0, 1])
    with pytest.raises(ProblemError, match=r"plan\[1\]: -1 is too small"):
        placed_pairs([counting.query], [0, -1, 0, 1])


def test_queries_that_cannot_be_measured_are_refused_in_one_line(
    spark: SparkSession, counting: RunningQuery
) -> None:
    with pytest.raises(QueryRefusedError, match="there is no query"):
        measure([])
    with pytest.raises(QueryRefusedError, match=f"{counting.query.name} is given twice"):
        measure([counting.query] * 2)
    with pytest.raises(ProblemError, match="inputs: has 2 names; there are 1 queries"):
        measure([counting.query], ["a", "b"])
    stateless = numbers(spark).writeStream.format("noop").trigger(processingTime="1 hour").start()
    try:
        with pytest.raises(QueryRefusedError, match="keeps no state"):
            measure([stateless])
    finally:
        stateless.stop()
    with pytest.raises(QueryRefusedError, match="is not running"):
        measure([counting.query, stateless])
    assert counting.query.isActive


@pytest.mark.slow
def test_work_without_state_is_load_that_cannot_be_placed(counting: RunningQuery) -> None:
    found = measure([counting.query], ["numbers"], batches=4, timeout_s=PATIENCE_S)
    assert len(found.capacity) == 2
    assert all(0.1 <= capacity <= 1.0 for capacity in found.capacity)
    assert len(found.unplaced) == 2
    assert sum(row[0] for row in found.unplaced) > 0, "the source takes its part"
    assert 0 < found.least_rates[0] <= found.rates[0]
    assert [operator.inputs for operator in found.graph.operators] == [("numbers",)] * PARTITIONS
    assert found.fields()["capacity"] == list(found.capacity)


@pytest.mark.slow
def test_a_join_of_two_sources_is_measured_by_pairs(spark: SparkSession) -> None:
    with running(join(spark), mode="append") as run:
        with pytest.raises(ProblemError, match=r"inputs\[0\]: has 1 names; .* reads 2 sources"):
            measure([run.query], ["numbers"])
        seen: list[BatchObservation] = []
        found = measure(
            [run.query],
            [("early", "late")],
            batches=6,
            timeout_s=PATIENCE_S,
            heard=lambda _, batch: seen.append(batch),
        )
        assert run.query.isActive
    for batch in seen:
        sides = [task.sides for task in batch.tasks if task.sides is not None]
        assert (sum(left for left, _ in sides), sum(right for _, right in sides)) == (ROWS, ROWS)
        assert batch.source_rows == (ROWS, ROWS)
    operators = found.graph.operators
    assert [each.kind for each in operators] == ["join"] * PARTITIONS
    assert {each.inputs for each in operators} == {("early", "late")}
    assert all(float(each.window or 0) > 0 and each.cost >= 0 for each in operators)
    pairs = float(operators[0].window or 0) * found.rates[0] * found.rates[1]
    out = sum(float(each.selectivity or 0) for each in operators) * pairs
    assert out == pytest.approx(found.rates[1], rel=0.5), "each late row has one early partner"
    plan = resilient(found.problem(), "rod")
    assert plan.status == "feasible"


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
