"""Streaming queries inside Spark: which run in the application, and what their plans hold.

All sessions of a SparkContext share the map of active queries, so those of any session are found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from elastream.spark.internals.jvm_values import JvmValues, items
from elastream.spark.internals.triggers import Trigger, trigger_of_class
from elastream.spark.internals.variants import Variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


JOIN: Final = "StreamingSymmetricHashJoinExec"
JOIN_STORES: Final = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
"""Those of a join that has several, in the order of their checkpoint ids."""
_DEFAULT_STORE: Final = "default"
_EXCHANGE: Final = "org.apache.spark.sql.execution.exchange.Exchange"
_UNION: Final = "org.apache.spark.sql.execution.UnionExec"
_SINGLE: Final = "SinglePartition$"
_REALTIME_SCAN: Final = "RealTimeStreamScanExec"
_SHUFFLE: Final = "ShuffleExchangeExec"
_INSTANCES: Final = "numStateStoreInstances"
_ROWS_OUT: Final = "numOutputRows"
_ROWS_READ: Final = "recordsRead"
_LOGICAL_JOIN: Final = "Join"
_STATEFUL: Final = frozenset(
    (
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "TransformWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    )
)
"""What keeps state in a streaming query, in addition to a join of two streams."""


@dataclass(frozen=True, slots=True, eq=False)
class RunningQuery:
    """One run of a streaming query."""

    id: str
    """The same after a restart from its checkpoint."""
    run_id: str
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
    """Where its state is kept, as the plan spells it."""
    run_id: str
    """State instances belong to one run."""
    group: int
    """Operators of one group share their tasks: no shuffle lies between them."""
    rank: int = 0
    """Its place among the stateful operators of the plan, the last to run first; Spark numbers
    the accumulators of their metrics in this order."""
    reader: int | None = None
    """Id of the stateful operator that reads what it puts out; ``None`` where none does."""
    output_step: int | None = None
    """From the number of its accumulator of state stores to that of its rows put out."""
    side: int = 0
    """Which side of its reader reads it: 1 for the right one of a join, 0 for all others."""
    sources: tuple[tuple[int, int], ...] = ()
    """What it reads with no stateful operator between: its side, and the source by its number in
    progress reports; once for each time that the plan reads it."""
    read_steps: tuple[int, int] | None = None
    """Of a join, from its accumulator of state stores to those of the rows read of its two sides;
    ``None`` for all others."""


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """A batch of a Real-time query that runs."""

    number: int
    ends_ms: int
    """When its sources stop reading, by the driver's clock."""
    groups: Mapping[int | None, int]
    """The group of operators in each of its stages, by the shuffle that the stage writes; ``None``:
    by none, which is the last one."""


class Queries:
    """The streaming queries of one SparkContext."""

    def __init__(self, spark: SparkSession, variant: Variant, values: JvmValues) -> None:
        self._variant = variant
        self._values = values
        self.running = spark._jsparkSession.sharedState().activeStreamingQueries()
        """The JVM's map of those that run, by id; for this package alone."""

    def active(self) -> tuple[RunningQuery, ...]:
        """Return the queries that run now, in whatever session."""
        return tuple(_described(execution) for execution in list(self.running.values()))

    def active_ids(self) -> frozenset[str]:
        """Return the ids of the queries that run now, in one call."""
        return frozenset(self._values.json(self.running.keySet()))

    def of(self, query: StreamingQuery) -> RunningQuery:
        """Return one of PySpark's queries."""
        return _described(query._jsq.streamingQuery())

    def streaming_query(self, query: RunningQuery) -> StreamingQuery | None:
        """Return it as one of PySpark's; ``None`` where it has ended."""
        from pyspark.sql.streaming.query import StreamingQuery

        found = query.execution.sparkSession().streams().get(query.id)
        return None if found is None else StreamingQuery(found)

    def await_initialized(self, query: StreamingQuery, timeout_s: float) -> None:
        """Return when the query has opened its sources, has ended, or at the timeout."""
        try:
            query._jsq.streamingQuery().awaitInitialization(round(timeout_s * 1000))
        except Exception:
            if query.exception() is None:  # else that is what was raised
                raise

    def fault(self, query: RunningQuery) -> str | None:
        """Return all that Spark says of what ended the query; ``None`` if nothing went wrong."""
        found = query.execution.exception()
        return None if found.isEmpty() else str(found.get().getMessage())

    def trigger(self, query: RunningQuery) -> Trigger:
        """Return when its batches begin."""
        trigger = query.execution.trigger()
        kind = trigger_of_class(trigger.getClass().getSimpleName())
        if kind is None or kind.interval is None:
            return Trigger(kind)
        return Trigger(kind, float(getattr(trigger, kind.interval)()) or None)

    def is_stateful(self, query: RunningQuery) -> bool:
        """Return whether the query keeps state, also before it has run a batch."""
        waiting = [query.execution.analyzedPlan()]
        while waiting:
            plan = waiting.pop()
            children = items(plan.children())
            if self._keeps_state(plan, children):
                return True
            waiting += children
        return False

    def statuses(self, queries: Sequence[RunningQuery]) -> list[QueryStatus]:
        """Return what each of the queries does."""
        if not queries:
            return []
        found = [self._values.json(query.execution.status()) for query in queries]
        running = self.active_ids()
        idle = [not each["isTriggerActive"] and not each["isDataAvailable"] for each in found]
        return [QueryStatus(query.id in running, idle[i]) for i, query in enumerate(queries)]

    def operators(self, query: RunningQuery) -> tuple[StatefulOperator, ...] | None:
        """Return the query's stateful operators by id; ``None`` before it has planned a batch."""
        plan = _planned(query)
        if plan is None:
            return None
        writers = self._writers(plan, _SourceNumbers(query.execution))
        infos = [writer.node.getStateInfo() for writer in writers]
        ids = [info.operatorId() for info in infos]
        found = [
            StatefulOperator(
                id=ids[rank],
                stores=self._stores(writer.node),
                partitions=_partitions(writer.node, info.numPartitions()),
                root=info.checkpointLocation(),
                run_id=info.queryRunId().toString(),
                group=writer.group,
                rank=rank,
                reader=None if writer.reader is None else ids[writer.reader],
                output_step=_output_step(writer.node),
                side=writer.side,
                sources=tuple(writer.sources),
                read_steps=self._read_steps(writer.node),
            )
            for rank, (writer, info) in enumerate(zip(writers, infos, strict=True))
        ]
        return tuple(sorted(found, key=lambda operator: operator.id))

    def running_batch(self, query: RunningQuery) -> RunningBatch | None:
        """Return the Real-time batch that the query runs; ``None`` before its sources read."""
        planned = query.execution.lastExecution()
        plan = _planned(query)
        if planned is None or plan is None:
            return None
        ends_ms = []
        for leaf in items(plan.collectLeaves()):
            if leaf.getClass().getSimpleName() == _REALTIME_SCAN:
                rows = self._values.field(leaf, "inputRDD")
                if rows is None:  # asking for it would begin the batch before Spark does
                    return None
                factory = self._values.field(rows, "partitionReaderFactory")
                ends_ms.append(int(factory.lowLatencyEndTime()))
        if not ends_ms:
            return None
        exchanges: dict[int, Any] = {}
        self._writers(plan, exchanges=exchanges)
        groups: dict[int | None, int] = {
            int(node.shuffleDependency().shuffleId()): group
            for group, node in exchanges.items()
            if node.getClass().getSimpleName() == _SHUFFLE
        }
        return RunningBatch(int(planned.currentBatchId()), max(ends_ms), {**groups, None: 0})

    def slots_of_plan(self, query: RunningQuery) -> int | None:
        """Return the tasks of a Real-time batch that run at once, by its plan.

        ``None`` where the query has planned none yet.
        """
        plan = _planned(query)
        if plan is None:
            return None
        sources = (
            leaf.inputPartitions().size()
            for leaf in items(plan.collectLeaves())
            if leaf.getClass().getSimpleName() == _REALTIME_SCAN
        )
        exchanges: dict[int, Any] = {}
        self._writers(plan, exchanges=exchanges)
        shuffles = (
            node.outputPartitioning().numPartitions()
            for node in exchanges.values()
            if node.getClass().getSimpleName() == _SHUFFLE
        )
        return int(sum(sources) + sum(shuffles))

    def scans(self, query: RunningQuery) -> tuple[int, ...]:
        """Return how often a batch of the query reads each source: once in each branch of its plan.

        Spark counts the rows of a batch as often; empty before the first batch.
        """
        plan = _planned(query)
        if plan is None:
            return ()
        numbers = _SourceNumbers(query.execution)
        read = [numbers.of(leaf) for leaf in items(plan.collectLeaves())]
        return tuple(read.count(number) for number in range(numbers.count))

    def metric_names(self, query: RunningQuery, keys: Sequence[str]) -> dict[str, str]:
        """Return the name in events of each metric of a stateful operator, by key.

        Empty before the first batch; a metric that the state store does not have is left out.
        """
        nodes = tuple(self.writer_nodes(query).values())
        if not nodes:
            return {}
        metrics = nodes[0].metrics()
        return {key: metrics.apply(key).name().get() for key in keys if metrics.contains(key)}

    def writer_nodes(self, query: RunningQuery) -> dict[int, Any]:
        """Return the plan's node of each stateful operator, by the operator's id.

        Empty before the first batch.
        """
        plan = _planned(query)
        writers = [] if plan is None else self._writers(plan)
        return {int(each.node.getStateInfo().operatorId()): each.node for each in writers}

    def committed_batch(self, query: RunningQuery) -> int | None:
        """Return the last batch that has committed; ``None`` where none has."""
        found = query.execution.commitLog().getLatestBatchId()
        return None if found.isEmpty() else int(found.get())

    def _keeps_state(self, plan: Any, children: Sequence[Any]) -> bool:
        if self._variant.tells_stateful:
            return bool(plan.isStateful())
        name = plan.getClass().getSimpleName()
        if name == _LOGICAL_JOIN:
            return all(child.isStreaming() for child in children)
        return name in _STATEFUL and bool(plan.isStreaming())

    def _stores(self, node: Any) -> tuple[str, ...]:
        if self._variant.names_stores:
            return tuple(self._values.json(node.stateStoreNames()))
        return JOIN_STORES if node.getClass().getSimpleName() == JOIN else (_DEFAULT_STORE,)

    def _read_steps(self, node: Any) -> tuple[int, int] | None:
        """Return where a join's two shuffles are among the accumulators."""
        children = items(node.children())
        if node.getClass().getSimpleName() != JOIN or len(children) != 2:
            return None
        own, left, right = node.metrics().apply(_INSTANCES).id(), *map(self._rows_read, children)
        return None if left is None or right is None else (int(left - own), int(right - own))

    def _rows_read(self, plan: Any) -> int | None:
        """Return the accumulator of the rows that the nearest shuffle below counts."""
        node = plan
        while not self._values.is_instance(_EXCHANGE, node):
            children = items(node.children())
            if len(children) != 1:
                return None
            (node,) = children
        metrics = node.metrics()
        return int(metrics.apply(_ROWS_READ).id()) if metrics.contains(_ROWS_READ) else None

    def _writers(
        self,
        plan: Any,
        numbers: _SourceNumbers | None = None,
        *,
        exchanges: dict[int, Any] | None = None,
    ) -> list[_Writer]:
        """Return the stateful operators of a plan from its root down, each with its group.

        A group is what runs in the same tasks. A shuffle ends it. A union runs its children's
        partitions as different tasks, except where it keeps their partitioning: then task i runs
        partition i of each. ``exchanges`` gets the shuffle that each group below one writes.
        """
        found: list[_Writer] = []
        last_group = 0
        waiting: list[_Writer] = [_Writer(plan, 0, None, 0, [])]
        while waiting:
            node, group, reader, side, _ = waiting.pop()
            if self._values.is_instance(self._variant.writer, node):
                found.append(_Writer(node, group, reader, side, []))
                reader, side = len(found) - 1, 0
            splits = self._values.is_instance(_EXCHANGE, node) or (
                self._values.is_instance(_UNION, node)
                and node.outputPartitioning().getClass().getSimpleName() == "UnknownPartitioning"
            )
            children = items(node.children())
            if numbers is not None and reader is not None and not children:
                number = numbers.of(node)
                if number is not None:
                    found[reader].sources.append((side, number))
            joins = reader is not None and found[reader].node is node and len(children) == 2
            for index in reversed(range(len(children))):
                if splits:
                    last_group += 1
                    if exchanges is not None:
                        exchanges[last_group] = node
                inner = last_group if splits else group
                below = index if joins else side
                waiting.append(_Writer(children[index], inner, reader, below, []))
        return found


class _Writer(NamedTuple):
    node: Any
    group: int
    reader: int | None
    """Place in the list of the nearest stateful operator above it."""
    side: int
    sources: list[tuple[int, int]]


class _SourceNumbers:
    """The sources of one query, numbered as its progress reports number them."""

    def __init__(self, execution: Any) -> None:
        self._sources: list[Any] = []
        for source in items(execution.sources()):
            if not any(source.equals(other) for other in self._sources):
                self._sources.append(source)

    @property
    def count(self) -> int:
        return len(self._sources)

    def of(self, leaf: Any) -> int | None:
        """Return the number of the source that a leaf of an executed plan reads, if any."""
        from py4j.protocol import Py4JError

        try:
            stream = leaf.getStream()
        except Py4JError:  # a leaf of a kind that reads no stream
            return None
        if not stream.isDefined():
            return None
        read = stream.get()
        return next((n for n, source in enumerate(self._sources) if source.equals(read)), None)


def _described(execution: Any) -> RunningQuery:
    query, run = execution.id().toString(), execution.runId().toString()
    return RunningQuery(query, run, execution.name(), execution)


def _planned(query: RunningQuery) -> Any | None:
    """Return the plan of the query's last batch; ``None`` where there is none, or it has failed.

    Spark plans a batch at the first request, and repeats the same failure at the next ones.
    The query ends with it by itself.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    execution = query.execution.lastExecution()
    if execution is None:
        return None
    try:
        return execution.executedPlan()
    except (Py4JJavaError, PySparkException):
        return None


def _partitions(writer: Any, planned: int) -> int:
    """Return how many tasks an operator has; with no key all rows go to one."""
    child = writer.children().apply(0)
    return 1 if child.outputPartitioning().getClass().getSimpleName() == _SINGLE else int(planned)


def _output_step(writer: Any) -> int | None:
    metrics = writer.metrics()
    if not (metrics.contains(_ROWS_OUT) and metrics.contains(_INSTANCES)):
        return None
    return int(metrics.apply(_ROWS_OUT).id() - metrics.apply(_INSTANCES).id())
