"""Spark's private door: the one module that reaches behind PySpark's public interface.

Steering needs four things that Spark has and does not publish: where the driver believes state
lives (the state-store coordinator), which stateful operators a query's plan has, which executors
there are, and what happens (the listener bus). All of them are objects of the driver's JVM, reached
through py4j. This module opens each once, turns what it finds into plain Python values, and says
which one is missing when the Spark version or mode is another than the one it was written for.

A listener without a jar: the JDK's ``java.beans.EventHandler`` makes an object of any listener
interface that hands one property of an event to one method of a target. With a queue as target,
Spark's events wait in the JVM until Python fetches them, many in one call; no event ever calls into
Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from elastream.model.errors import UnsupportedSparkError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "EventQueue",
    "ExecutorEntry",
    "PrivateDoor",
    "StatefulOperator",
    "keep_first_executors",
]

_STATE: Final = "org.apache.spark.sql.execution.streaming.state"
_WRITER: Final = "org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter"
_SESSION: Final = "org.apache.spark.sql.classic.SparkSession"
_LISTENER: Final = "org.apache.spark.scheduler.SparkListenerInterface"
_PROGRESS_LISTENER: Final = "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
_STREAMS_QUEUE: Final = "streams"
_EXCHANGE: Final = "org.apache.spark.sql.execution.exchange.Exchange"
_UNION: Final = "org.apache.spark.sql.execution.UnionExec"
_LOCATION_PREFIX: Final = "executor_"
_INSTANCES: Final = "numStateStoreInstances"
_ROWS_OUT: Final = "numOutputRows"


@dataclass(frozen=True, slots=True)
class ExecutorEntry:
    """One executor as the driver's status store has it."""

    id: str
    host: str
    cores: int
    added_ms: int
    """When it registered, in milliseconds since the epoch."""
    port: int = 0
    """Where it serves shuffle blocks to the others."""


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """One stateful operator of a query's plan."""

    id: int
    stores: tuple[str, ...]
    """Names of its state stores; a stream-stream join may have four."""
    partitions: int
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


@dataclass(frozen=True, slots=True)
class EventQueue:
    """Events of one kind, waiting in the JVM."""

    queue: Any
    """A ``java.util.concurrent.BlockingQueue``."""
    close: Callable[[], None]
    """Hear no more."""


class PrivateDoor:
    """The private parts of one running Spark session; opened, and checked, by :meth:`of`."""

    def __init__(self, spark: SparkSession, jvm: Any, context: Any, coordinator: Any) -> None:
        self.spark = spark
        self._jvm = jvm
        self._context = context
        self._coordinator = coordinator
        # A name with dots asks the JVM once a dot: what is used often is looked up here, once.
        self.java_list: Callable[[], Any] = jvm.java.util.ArrayList
        self.milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self._queue: Callable[[], Any] = jvm.java.util.concurrent.LinkedBlockingQueue
        self._handler: Callable[..., Any] = jvm.java.beans.EventHandler.create
        self._class: Callable[[str], Any] = jvm.java.lang.Class.forName
        self._state = jvm.org.apache.spark.sql.execution.streaming.state
        self._to_seq: Callable[[Any], Any] = jvm.PythonUtils.toSeq
        self._nothing = self._seq(())
        self._mapper = _json_mapper(jvm)

    @classmethod
    def of(cls, spark: SparkSession) -> PrivateDoor:
        """Open every door, or say which one does not open on this Spark version or mode."""
        import pyspark

        if not hasattr(spark, "_jsparkSession"):
            raise UnsupportedSparkError(
                "the session is a Spark Connect client, which cannot reach the driver that places "
                "state: run elastream in the driver's own process, with a classic session"
            )
        version = pyspark.__version__
        jvm: Any = spark._jvm
        doors: dict[str, Callable[[], Any]] = {
            "SparkContext": lambda: spark.sparkContext._jsc.sc(),
            "state-store coordinator": lambda: (
                spark._jsparkSession.streams().stateStoreCoordinator()
            ),
            "StateStoreCoordinatorRef.reportActiveInstance": lambda: _needs_methods(
                jvm, f"{_STATE}.StateStoreCoordinatorRef", "reportActiveInstance", "getLocation"
            ),
            "StateStoreWriter.stateStoreNames": lambda: _needs_methods(
                jvm, _WRITER, "stateStoreNames", "getStateInfo", "metrics"
            ),
            "StateStoreProviderId": lambda: jvm.java.lang.Class.forName(
                f"{_STATE}.StateStoreProviderId"
            ),
            "LiveListenerBus.addToQueue": lambda: _needs_methods(
                jvm, "org.apache.spark.scheduler.LiveListenerBus", "addToQueue", "removeListener"
            ),
            "SparkListenerInterface": lambda: _needs_methods(
                jvm, _LISTENER, "onTaskEnd", "onJobStart"
            ),
            "PythonStreamingQueryListener": lambda: _needs_methods(
                jvm, _PROGRESS_LISTENER, "onQueryProgress"
            ),
            "java.beans.EventHandler": lambda: jvm.java.lang.Class.forName(
                "java.beans.EventHandler"
            ),
            "SparkSession.cloneSession": lambda: _needs_methods(jvm, _SESSION, "cloneSession"),
            "status store": lambda: spark.sparkContext._jsc.sc().statusStore().executorList(True),
        }
        opened = {name: _opened(name, door, version) for name, door in doors.items()}
        return cls(spark, jvm, opened["SparkContext"], opened["state-store coordinator"])

    def json(self, value: Any) -> Any:
        """Return a JVM value as plain Python, in one call however large it is."""
        return json.loads(self._mapper.writeValueAsString(value))

    def cloned_session(self) -> SparkSession:
        """Return a session that knows what this one knows, whose settings are its own.

        ``newSession`` knows no settings that were made at run time and none of the data sources.
        """
        from pyspark.sql import SparkSession

        return SparkSession(self.spark.sparkContext, self.spark._jsparkSession.cloneSession())

    def executors(self) -> tuple[ExecutorEntry, ...]:
        """Return the executors that are alive, oldest first."""
        found = [
            ExecutorEntry(entry["id"], host, entry["totalCores"], entry["addTime"], int(port))
            for entry in self.json(self._context.statusStore().executorList(True))
            # One that has just registered has no address yet, and runs no task before it has.
            for host, _, port in [entry["hostPort"].rpartition(":")]
            if entry["id"] != "driver" and host
        ]
        return tuple(sorted(found, key=lambda entry: (entry.added_ms, entry.id)))

    def request_executors(self, total: int) -> bool:
        """Ask the cluster for ``total`` executors; ``False`` where it cannot be asked."""
        anywhere = self._jvm.PythonUtils.toScalaMap(self._jvm.java.util.HashMap())
        return bool(self._context.requestTotalExecutors(total, 0, anywhere))

    def retire_executors(self, ids: Sequence[str]) -> None:
        """Let the executors end: no new task goes to them, and they hand over their shuffle files.

        Where decommissioning is switched off they are killed at once, and a batch that needs
        their shuffle files computes these again. The cluster then wants as many fewer.
        """
        if self.spark.conf.get("spark.decommission.enabled", "false") != "true":
            self._context.killExecutors(self._seq(ids))
            return
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "released by elastream", self._jvm.scala.Option.empty()
        )
        backend = self._context.schedulerBackend()
        for executor in ids:
            backend.decommissionExecutor(executor, info, True, False)

    def rows_on(self, executor: ExecutorEntry, session: SparkSession, rows: int) -> DataFrame:
        """Return a table of a few words, one a partition, each read on this executor."""
        from pyspark.sql import DataFrame

        jvm = self._jvm
        location = self._seq([f"{_LOCATION_PREFIX}{executor.host}_{executor.id}"])
        placed = self.java_list()
        for number in range(rows):
            placed.add(jvm.scala.Tuple2(str(number), location))
        tag = jvm.scala.reflect.ClassTag.apply(self._class("java.lang.String"))
        words = self._context.makeRDD(self._to_seq(placed), tag)
        text = jvm.org.apache.spark.sql.Encoders.STRING()
        return DataFrame(session._jsparkSession.createDataset(words, text).toDF(), session)

    def provider_id(self, operator: StatefulOperator, partition: int, store: str) -> Any:
        """Return the JVM's name of one state store."""
        run = self._jvm.java.util.UUID.fromString(operator.run_id)
        store_id = self._state.StateStoreId(operator.root, operator.id, partition, store)
        return self._state.StateStoreProviderId(store_id, run)

    def location(self, provider_id: Any) -> str | None:
        """Return the id of the executor that the coordinator believes holds the store."""
        found = self._coordinator.getLocation(provider_id)
        if found.isEmpty():
            return None
        return str(found.get()).removeprefix(_LOCATION_PREFIX).rpartition("_")[2]

    def report(self, provider_id: Any, executor: ExecutorEntry) -> None:
        """Tell the coordinator that the executor holds the store, so that its task goes there."""
        self._coordinator.reportActiveInstance(
            provider_id, executor.host, executor.id, self._nothing
        )

    def last_execution(self, query: StreamingQuery) -> Any | None:
        """Return the batch that the query planned last, or ``None`` before its first one."""
        return query._jsq.streamingQuery().lastExecution()

    def operators(self, query: StreamingQuery) -> tuple[StatefulOperator, ...] | None:
        """Return the query's stateful operators by id; ``None`` before it has planned a batch."""
        execution = self.last_execution(query)
        if execution is None:
            return None
        found = []
        writers = _writers(self, execution.executedPlan())
        ids = [writer.node.getStateInfo().operatorId() for writer in writers]
        for rank, writer in enumerate(writers):
            info = writer.node.getStateInfo()
            found.append(
                StatefulOperator(
                    id=ids[rank],
                    stores=tuple(self.json(writer.node.stateStoreNames())),
                    partitions=info.numPartitions(),
                    root=info.checkpointLocation(),
                    run_id=info.queryRunId().toString(),
                    group=writer.group,
                    rank=rank,
                    reader=None if writer.reader is None else ids[writer.reader],
                    output_step=_output_step(writer.node),
                )
            )
        return tuple(sorted(found, key=lambda operator: operator.id))

    def scans(self, query: StreamingQuery) -> int:
        """Return how often a batch of the query reads a source: once in each branch of its plan.

        Spark counts the rows of a batch as often; 0 before the first batch.
        """
        execution = self.last_execution(query)
        if execution is None:
            return 0
        leaves = execution.logical().collectLeaves()
        return sum(bool(leaves.apply(i).isStreaming()) for i in range(leaves.size()))

    def metric_names(self, query: StreamingQuery, keys: Sequence[str]) -> dict[str, str]:
        """Return the name under which events tell each metric of a stateful operator, by key.

        Empty before the first batch; a metric that the state store does not have is left out.
        """
        execution = self.last_execution(query)
        writers = [] if execution is None else _writers(self, execution.executedPlan())
        found: dict[str, str] = {}
        for writer in writers[:1]:
            metrics = writer.node.metrics()
            for key in keys:
                if metrics.contains(key):
                    found[key] = metrics.apply(key).name().get()
        return found

    def stores_on(self, query: StreamingQuery, executors: Set[str]) -> int:
        """Return how many state stores of the query the coordinator believes to be on these."""
        return sum(
            self.location(self.provider_id(operator, partition, operator.stores[0])) in executors
            for operator in self.operators(query) or ()
            for partition in range(operator.partitions)
        )

    def delete_folder(self, path: str) -> None:
        """Delete a folder and all in it, on whatever file system it is."""
        folder = self._jvm.org.apache.hadoop.fs.Path(path)
        folder.getFileSystem(self._context.hadoopConfiguration()).delete(folder, True)

    def listen(self, method: str) -> EventQueue:
        """Return a queue of the events that Spark hands to ``method`` of a listener, in order.

        The listener shares its place on the bus with the listeners of streaming queries: an event
        is here before any later one is in a queue of :meth:`listen_to_progress`.
        """
        queue = self._queue()
        listener = self.handler(_LISTENER, queue, "add", "", method)
        bus = self._context.listenerBus()
        bus.addToQueue(listener, _STREAMS_QUEUE)
        return EventQueue(queue, lambda: bus.removeListener(listener))

    def listen_to_progress(self, query: StreamingQuery) -> EventQueue:
        """Return a queue of the progress reports of all queries in the query's session."""
        queue = self._queue()
        wrapper = self._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
        listener = wrapper(
            self.handler(_PROGRESS_LISTENER, queue, "add", "progress", "onQueryProgress")
        )
        streams = query._jsq.sparkSession().streams()
        streams.addListener(listener)
        return EventQueue(queue, lambda: streams.removeListener(listener))

    def handler(self, interface: str, target: Any, action: str, value: str, method: str) -> Any:
        """Return an ``interface`` object whose ``method(x)`` calls ``target.action(x.value)``."""
        return self._handler(self._class(interface), target, action, value, method)

    def is_instance(self, class_name: str, value: Any) -> bool:
        """Tell whether a JVM value is of a class."""
        return bool(self._class(class_name).isInstance(value))

    def _seq(self, values: Iterable[str]) -> Any:
        java_list = self.java_list()
        for value in values:
            java_list.add(value)
        return self._to_seq(java_list)


def keep_first_executors(context: SparkContext, keep: int, total: int) -> None:
    """Take the last of the executors away that a local cluster has just launched.

    The cluster numbers them from 0; called before they register, it spares their start.
    """
    scala_context = context._jsc.sc()
    jvm: Any = context._jvm
    scala_context.requestTotalExecutors(
        keep, 0, jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    )
    surplus = jvm.java.util.ArrayList()
    for number in range(keep, total):
        surplus.add(str(number))
    scala_context.schedulerBackend().doKillExecutors(jvm.PythonUtils.toSeq(surplus))


class _Writer(NamedTuple):
    node: Any
    group: int
    reader: int | None
    """Place in the list of the nearest stateful operator above it."""


def _writers(door: PrivateDoor, plan: Any) -> list[_Writer]:
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
        if door.is_instance(_WRITER, node):
            found.append(_Writer(node, group, reader))
            reader = len(found) - 1
        splits = door.is_instance(_EXCHANGE, node) or (
            door.is_instance(_UNION, node)
            and node.outputPartitioning().getClass().getSimpleName() == "UnknownPartitioning"
        )
        children = node.children()
        for index in reversed(range(children.size())):
            if splits:
                last_group += 1
            waiting.append(_Writer(children.apply(index), last_group if splits else group, reader))
    return found


def _output_step(writer: Any) -> int | None:
    metrics = writer.metrics()
    if not (metrics.contains(_ROWS_OUT) and metrics.contains(_INSTANCES)):
        return None
    return int(metrics.apply(_ROWS_OUT).id() - metrics.apply(_INSTANCES).id())


def _opened(name: str, door: Callable[[], Any], version: str) -> Any:
    from py4j.protocol import Py4JError

    try:
        return door()
    except (Py4JError, AttributeError, TypeError) as error:
        raise UnsupportedSparkError(
            f"Spark {version} does not open the door that elastream needs: {name} is missing"
        ) from error


def _needs_methods(jvm: Any, class_name: str, *methods: str) -> None:
    found = {method.getName() for method in jvm.java.lang.Class.forName(class_name).getMethods()}
    for method in methods:
        if method not in found:
            raise AttributeError(method)


def _json_mapper(jvm: Any) -> Any:
    """Return a writer of JSON that knows Scala's types, and leaves out what nobody reads."""
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())
    unread = jvm.java.util.HashSet()
    for name in ("value", "internal", "countFailedValues", "metadata"):
        unread.add(name)
    ignored = jvm.com.fasterxml.jackson.annotation.JsonIgnoreProperties.Value
    mapper.configOverride(
        jvm.java.lang.Class.forName("org.apache.spark.scheduler.AccumulableInfo")
    ).setIgnorals(ignored.forIgnoredProperties(unread))
    return mapper
