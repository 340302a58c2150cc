"""Where the state of a query is loaded when the query is started again.

A query that goes on from its checkpoint is a new run, and the coordinator knows nothing of where
its state shall be: Spark would put its tasks wherever a core is free. Told before the first batch
is planned, it puts them where they are wanted, as a live move would have (:mod:`.placement`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from elastream.model.observation import TaskId
from elastream.spark.internals.queries import StatefulOperator
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.task_events import lead_of, tasks_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def place_resumed(
    internals: SparkInternals,
    query: StreamingQuery,
    operators: Sequence[StatefulOperator],
    goal: Mapping[TaskId, str],
) -> None:
    """Prefer the executors of ``goal`` for the tasks of a query that has just been started.

    ``operators`` are those of its earlier run. A task that ``goal`` does not name, or whose
    executor is gone, goes where the fewest others are: one task of a stage without a preference,
    and Spark's scheduler no longer waits for those of the others. With no executor alive all is
    left to Spark.
    """
    alive = {entry.id: entry for entry in internals.executors()}
    if not alive:
        return
    leads, name = lead_of(operators), query.name or str(query.id)
    tasks = tasks_of(name, operators)
    chosen = {task: goal[task] for task in tasks if goal.get(task) in alive}
    held = Counter(chosen.values())
    for task in tasks:
        if task not in chosen:
            chosen[task] = min(alive, key=lambda executor: held[executor])
            held[chosen[task]] += 1
    for operator in operators:
        resumed = replace(operator, run_id=str(query.runId))
        for partition in range(operator.partitions):
            executor = alive[chosen[TaskId(name, leads[operator.id], partition)]]
            for store in operator.stores:
                internals.report(internals.provider_id(resumed, partition, store), executor)
