"""Streaming queries behind the door: which run in the application, and what their plans hold.

A ``StreamExecution`` of the driver's JVM is known here by a :class:`RunningQuery`. All sessions of
one SparkContext share the map of active queries, so that those of any session are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.door.private_door import PrivateDoor

__all__ = [
    "Queries",
    "QueryStatus",
    "RunningQuery",
    "StatefulOperator",
    "Trigger",
]

WRITER: Final = "org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter"
_EXCHANGE: Final = "org.apache.spark.sql.execution.exchange.Exchange"
_UNION: Final = "org.apache.spark.sql.execution.UnionExec"
_SINGLE: Final = "SinglePartition$"
_INSTANCES: Final = "numStateStoreInstances"
_ROWS_OUT: Final = "numOutputRows"
_TRIGGERS: Final = {
    "ProcessingTimeTrigger": "interval",
    "OneTimeTrigger$": "once",
    "AvailableNowTrigger$": "available now",
    "ContinuousTrigger": "continuous",
    "RealTimeTrigger": "real-time",
}


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a query's batches begin."""

    kind: Literal["interval", "once", "available now", "continuous", "real-time", "unknown"]
    interval_ms: float | None = None
    """How often they begin; ``None``: as soon as the one before has ended, or there are none."""


@dataclass(frozen=True, slots=True, eq=False)
class RunningQuery:
    """One run of a streaming query."""

    id: str
    """Of the query: the same after a restart from its checkpoint."""
    run_id: str
    """Of this run."""
    name: str | None
    execution: Any
    """The JVM's ``StreamExecution``."""

    @property
    def label(self) -> str:
        """What messages call it: its name, or its id."""
        return self.name or self.id


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """What a query does at one moment."""

    active: bool
    """Whether it has not ended."""
    idle: bool
    """Whether no batch runs and the last look at the source found no rows for one."""


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """One stateful operator of a query's plan."""

    id: int
    stores: tuple[str, ...]
    """Names of its state stores; a stream-stream join may have four."""
    partitions: int
    """How many tasks it really has: 1 for a global aggregate or a limit, whatever Spark says."""
    root: str
    """Where its state is kept, spelled as the plan spells it."""
    run_id: str
    """The run of the query; state instances belong to one run."""
    group: int
    """Operators of one group share their tasks: no shuffle lies between them."""
    rank: int = 0
    """Its place among the stateful operators of the plan, the last to run first; Spark numbers
    the accumulators of their metrics in this order."""
    reader: int | None = None
    """Id of the stateful operator that reads what it puts out; ``None`` where none does."""
    output_step: int | None = None
    """From the number of its accumulator of state stores to that of its rows put out."""


class Queries:
    """The streaming queries of one SparkContext."""

    def __init__(self, door: PrivateDoor) -> None:
        self._door = door
        self.running = door.spark._jsparkSession.sharedState().activeStreamingQueries()
        """The JVM's map of those that run, by id; for this room alone."""

    def active(self) -> tuple[RunningQuery, ...]:
        """Return the queries that run now, in whatever session."""
        return tuple(self._described(execution) for execution in list(self.running.values()))

    def active_ids(self) -> frozenset[str]:
        """Return the ids of the queries that run now, in one call."""
        return frozenset(self._door.json(self.running.keySet()))

    def of(self, query: StreamingQuery) -> RunningQuery:
        """Return one of PySpark's queries."""
        return self._described(query._jsq.streamingQuery())

    def streaming_query(self, query: RunningQuery) -> StreamingQuery | None:
        """Return it as one of PySpark's; ``None`` where it has ended."""
        from pyspark.sql.streaming.query import StreamingQuery

        found = query.execution.sparkSession().streams().get(query.id)
        return None if found is None else StreamingQuery(found)

    def fault(self, query: RunningQuery) -> str | None:
        """Return the first line of what ended the query; ``None`` where nothing went wrong."""
        found = query.execution.exception()
        if found.isEmpty():
            return None
        return str(found.get().getMessage()).strip().splitlines()[0]

    def trigger(self, query: RunningQuery) -> Trigger:
        """Return when its batches begin."""
        trigger = query.execution.trigger()
        kind: Any = _TRIGGERS.get(trigger.getClass().getSimpleName(), "unknown")
        interval_ms = float(trigger.intervalMs()) if kind == "interval" else 0.0
        return Trigger(kind, interval_ms or None)

    def is_stateful(self, query: RunningQuery) -> bool:
        """Tell whether the query keeps state, before it has run a batch."""
        waiting = [query.execution.analyzedPlan()]
        while waiting:
            plan = waiting.pop()
            if plan.isStateful():
                return True
            children = plan.children()
            waiting += [children.apply(index) for index in range(children.size())]
        return False

    def statuses(self, queries: Sequence[RunningQuery]) -> list[QueryStatus]:
        """Return what each of the queries does."""
        if not queries:
            return []
        told = [self._door.json(query.execution.status()) for query in queries]
        running = self.active_ids()
        return [
            QueryStatus(
                active=query.id in running,
                idle=not each["isTriggerActive"] and not each["isDataAvailable"],
            )
            for query, each in zip(queries, told, strict=True)
        ]

    def operators(self, query: RunningQuery) -> tuple[StatefulOperator, ...] | None:
        """Return the query's stateful operators by id; ``None`` before it has planned a batch."""
        execution = query.execution.lastExecution()
        if execution is None:
            return None
        found = []
        writers = self._writers(execution.executedPlan())
        ids = [writer.node.getStateInfo().operatorId() for writer in writers]
        for rank, writer in enumerate(writers):
            info = writer.node.getStateInfo()
            found.append(
                StatefulOperator(
                    id=ids[rank],
                    stores=tuple(self._door.json(writer.node.stateStoreNames())),
                    partitions=_partitions(writer.node, info.numPartitions()),
                    root=info.checkpointLocation(),
                    run_id=info.queryRunId().toString(),
                    group=writer.group,
                    rank=rank,
                    reader=None if writer.reader is None else ids[writer.reader],
                    output_step=_output_step(writer.node),
                )
            )
        return tuple(sorted(found, key=lambda operator: operator.id))

    def scans(self, query: RunningQuery) -> int:
        """Return how often a batch of the query reads a source: once in each branch of its plan.

        Spark counts the rows of a batch as often; 0 before the first batch.
        """
        execution = query.execution.lastExecution()
        if execution is None:
            return 0
        leaves = execution.logical().collectLeaves()
        return sum(bool(leaves.apply(i).isStreaming()) for i in range(leaves.size()))

    def metric_names(self, query: RunningQuery, keys: Sequence[str]) -> dict[str, str]:
        """Return the name under which events tell each metric of a stateful operator, by key.

        Empty before the first batch; a metric that the state store does not have is left out.
        """
        execution = query.execution.lastExecution()
        writers = [] if execution is None else self._writers(execution.executedPlan())
        found: dict[str, str] = {}
        for writer in writers[:1]:
            metrics = writer.node.metrics()
            for key in keys:
                if metrics.contains(key):
                    found[key] = metrics.apply(key).name().get()
        return found

    def writer_nodes(self, query: RunningQuery) -> dict[int, Any]:
        """Return the plan's node of each stateful operator, by the operator's id.

        Empty before the first batch.
        """
        execution = query.execution.lastExecution()
        writers = [] if execution is None else self._writers(execution.executedPlan())
        return {int(each.node.getStateInfo().operatorId()): each.node for each in writers}

    def committed_batch(self, query: RunningQuery) -> int | None:
        """Return the last batch that has committed; ``None`` where none has."""
        found = query.execution.commitLog().getLatestBatchId()
        return None if found.isEmpty() else int(found.get())

    def _described(self, execution: Any) -> RunningQuery:
        return RunningQuery(
            execution.id().toString(),
            execution.runId().toString(),
            execution.name(),
            execution,
        )

    def _writers(self, plan: Any) -> list[_Writer]:
        """Return the stateful operators of a plan from its root down, each with its group.

        A group is what runs in the same tasks. A shuffle ends it. A union runs its children's
        partitions as different tasks, except where it keeps their partitioning: then task i runs
        partition i of each.
        """
        found: list[_Writer] = []
        last_group = 0
        waiting: list[_Writer] = [_Writer(plan, 0, None)]
        while waiting:
            node, group, reader = waiting.pop()
            if self._door.is_instance(WRITER, node):
                found.append(_Writer(node, group, reader))
                reader = len(found) - 1
            splits = self._door.is_instance(_EXCHANGE, node) or (
                self._door.is_instance(_UNION, node)
                and node.outputPartitioning().getClass().getSimpleName() == "UnknownPartitioning"
            )
            children = node.children()
            for index in reversed(range(children.size())):
                if splits:
                    last_group += 1
                inner = last_group if splits else group
                waiting.append(_Writer(children.apply(index), inner, reader))
        return found


class _Writer(NamedTuple):
    node: Any
    group: int
    reader: int | None
    """Place in the list of the nearest stateful operator above it."""


def _partitions(writer: Any, planned: int) -> int:
    """Return how many tasks an operator has; with no key all rows go to one."""
    child = writer.children().apply(0)
    return 1 if child.outputPartitioning().getClass().getSimpleName() == _SINGLE else int(planned)


def _output_step(writer: Any) -> int | None:
    metrics = writer.metrics()
    if not (metrics.contains(_ROWS_OUT) and metrics.contains(_INSTANCES)):
        return None
    return int(metrics.apply(_ROWS_OUT).id() - metrics.apply(_INSTANCES).id())
