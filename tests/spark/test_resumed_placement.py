from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.spark.running_query import PATIENCE_S, running
from tests.spark.streams import aggregation

from elastream.control.observation import BatchObservation, TaskId
from elastream.spark.monitor import Monitor
from elastream.spark.resumed_placement import place_resumed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_started_again_loads_its_state_where_it_is_wanted(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update") as run:
        operators = run.door.operators(run.query)
        assert operators
        first, second = run.executor_ids()
        run.settle(dict.fromkeys(run.placement.tasks, first))
        goal = dict.fromkeys(run.placement.tasks, second)
        goal[run.placement.tasks[0]] = "no executor of this name"
        run.query.stop()
        resumed = (
            aggregation(spark)
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(run.checkpoint))
            .start()
        )
        try:
            place_resumed(run.door, resumed, operators, goal)
            told: list[BatchObservation] = []
            two_told = threading.Event()

            def hear(seen: BatchObservation) -> None:
                told.append(seen)
                if len(told) == 2:
                    two_told.set()

            with Monitor(run.door, resumed) as monitor:
                monitor.subscribe(hear)
                assert two_told.wait(PATIENCE_S), resumed.exception()
        finally:
            resumed.stop()
        where = {seen.task: seen.executor for seen in told[1].tasks}
        wanted = {task: second for task in goal if goal[task] == second}
        assert {task: where[task] for task in wanted} == wanted
        assert where[TaskId(0, 0)] in (first, second)
