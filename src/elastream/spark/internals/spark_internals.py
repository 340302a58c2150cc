"""Spark's private interfaces: finding them, and what can be done with them.

Steering needs four things that Spark does not publish: where the driver believes state lives (the
state-store coordinator), which stateful operators a query has (:mod:`.queries`), which executors
there are, and what happens (:mod:`.digest`). All are objects of the driver's JVM, reached through
py4j, and come out as plain Python values. What this Spark lacks is named.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import UnsupportedSparkError
from elastream.model.observation import ExecutorMemory, slots_of
from elastream.spark.internals.jvm_values import JvmValues, java_array
from elastream.spark.internals.queries import Queries, StatefulOperator
from elastream.spark.internals.variants import STATE, Variant, variant_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    f"{STATE}.StateStoreCoordinatorRef": ("reportActiveInstance", "getLocation"),
    f"{STATE}.StateStoreProviderId": (),
    "org.apache.spark.scheduler.DAGScheduler": ("activeJobs",),
    "org.apache.spark.scheduler.LiveListenerBus": ("addToQueue", "removeListener"),
    "org.apache.spark.status.AppStatusStore": ("executorList",),
    "org.apache.spark.sql.internal.SharedState": ("activeStreamingQueries",),
    "org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator": (),
    "org.apache.spark.sql.classic.SparkSession": ("cloneSession",),
    "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend": (
        "executorsPendingDecommission",
        "isExecutorActive",
        "getExecutorIds",
    ),
}
"""The classes that are needed in every version, with their methods."""
_HEAP: Final = "JVMHeapMemory"
_PROCESS_TREE: Final = (
    "ProcessTreeJVMRSSMemory",
    "ProcessTreePythonRSSMemory",
    "ProcessTreeOtherRSSMemory",
)
_CONTAINERS: Final = ("yarn", "k8s")
"""The masters that end an executor which uses more than it may."""
_OVERHEAD: Final = "spark.executor.memoryOverhead"
_PYTHON: Final = "spark.executor.pyspark.memory"
_LOCATION_PREFIX: Final = "executor_"


@dataclass(frozen=True, slots=True)
class ExecutorEntry:
    """One executor as the driver's status store has it."""

    id: str
    host: str
    cores: int
    added_ms: int
    """When it registered, in milliseconds since the epoch."""
    task_cpus: float = 1.0
    """Cores that the application sets aside for a task."""
    port: int = 0
    """Where it serves shuffle blocks to the others."""
    memory: ExecutorMemory = field(default_factory=ExecutorMemory)

    @property
    def slots(self) -> int:
        """How many tasks it runs at once."""
        return slots_of(self.cores, self.task_cpus)


class SparkInternals(JvmValues):
    """The private parts of one running Spark session; opened, and checked, by :meth:`of`."""

    def __init__(
        self, spark: SparkSession, variant: Variant, jvm: Any, context: Any, coordinator: Any
    ) -> None:
        super().__init__(jvm)
        self.spark = spark
        self.variant = variant
        self.context = context
        """For this package alone, as are the next two."""
        self.coordinator = coordinator
        self.task_cpus = float(context.conf().get("spark.task.cpus", "1"))
        """Cores that the application sets aside for a task."""
        self.running_jobs = context.dagScheduler().activeJobs()
        self._own: dict[str, SparkSession] = {}
        """The sessions for elastream's own jobs, by purpose."""
        self._own_lock = threading.Lock()
        self._state = jvm.org.apache.spark.sql.execution.streaming.state
        self._nothing = self.seq(())
        self.queries = Queries(spark, variant, self)

    @classmethod
    def of(cls, spark: SparkSession) -> SparkInternals:
        """Find every private interface, or say which one this Spark version or mode lacks."""
        from py4j.protocol import Py4JError

        if not hasattr(spark, "_jsparkSession"):
            raise UnsupportedSparkError(
                "the session is a Spark Connect client, which cannot reach the driver that places "
                "state: run elastream in the driver's own process, with a classic session"
            )
        version = spark.version
        variant = variant_of(version)
        try:
            context = spark.sparkContext._jsc.sc()
            coordinator = spark._jsparkSession.streams().stateStoreCoordinator()
        except (Py4JError, AttributeError, TypeError) as error:
            why = "the coordinator of its state stores is missing"
            raise UnsupportedSparkError(f"Spark {version} lacks what is needed: {why}") from error
        jvm: Any = spark._jvm
        store_names = ("stateStoreNames",) if variant.names_stores else ()
        needed = {**_NEEDED, variant.writer: ("getStateInfo", "metrics", *store_names)}
        for class_name, methods in needed.items():
            missing = missing_name(jvm, class_name, methods)
            if missing is not None:
                why = f"{missing} is missing"
                raise UnsupportedSparkError(f"Spark {version} lacks what is needed: {why}")
        return cls(spark, variant, jvm, context, coordinator)

    def cloned_session(self) -> SparkSession:
        """Return a session that knows what this one knows, whose settings are its own.

        ``newSession`` knows no settings that were made at run time and none of the data sources.
        """
        from pyspark.sql import SparkSession

        return SparkSession(self.spark.sparkContext, self.spark._jsparkSession.cloneSession())

    def own_session(
        self,
        purpose: str = "jobs",
        settings: Mapping[str, str | None] | None = None,
        *,
        anew: bool = False,
    ) -> SparkSession:
        """Return a session for elastream's own jobs, with the settings that the user's has now.

        ``settings`` go before those; ``None`` is one that is not set. Jobs with settings of their
        own, in whatever thread, need a session of their own, by ``purpose``. Each is kept, since
        every clone leaves a listener on the application's bus. ``anew`` makes one that knows data
        sources that were registered since.
        """
        with self._own_lock:
            if anew or purpose not in self._own:
                self._own[purpose] = self.cloned_session()
            session = self._own[purpose]
            both: dict[str, str | None] = {**self.spark.conf.getAll, **(settings or {})}
            wanted = {name: value for name, value in both.items() if value is not None}
            conf, now = session.conf, session.conf.getAll
            for name in now.keys() - wanted.keys():
                conf.unset(name)
            for name, value in wanted.items():
                if now.get(name) != value:
                    conf.set(name, value)
        return session

    def listener_bus(self) -> Any:
        """Return the bus of Spark's listeners."""
        return self.context.listenerBus()

    def is_alive(self) -> bool:
        """Return whether the application has not ended."""
        try:
            return not self.context.isStopped()
        except Exception:  # its JVM has ended
            return False

    def application_id(self) -> str:
        """Return the id of the application, one for each SparkContext."""
        return str(self.context.applicationId())

    def executors(self, *, leaving: bool = False) -> tuple[ExecutorEntry, ...]:
        """Return the executors that are alive and get tasks, oldest first.

        ``leaving``: also those that are being decommissioned, and those that Spark excludes.
        """
        entries = self.json(self.context.statusStore().executorList(True))
        passed_over = set() if leaving else self._without_tasks(entries)
        passed_over |= self._gone(entries)  # afterwards: one may go meanwhile
        found = [
            ExecutorEntry(
                entry["id"],
                host,
                entry["totalCores"],
                entry["addTime"],
                self.task_cpus,
                int(port),
                self._memory(entry.get("peakMemoryMetrics") or {}),
            )
            for entry in entries
            # One that has just registered has no address yet, and runs no task before it has.
            for host, _, port in [entry["hostPort"].rpartition(":")]
            if entry["id"] != "driver" and host and entry["id"] not in passed_over
        ]
        return tuple(sorted(found, key=lambda entry: (entry.added_ms, entry.id)))

    def share_driver_host(self, executors: Sequence[ExecutorEntry]) -> bool:
        """Return whether these executors are on the driver's host, and so share its disks."""
        if str(self.context.master()).startswith("local"):
            return True
        host = str(self.context.conf().get("spark.driver.host"))
        return all(executor.host == host for executor in executors)

    def _gone(self, entries: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the executors that the scheduler has removed, and the status store has not yet.

        The store gets an event. One that was decommissioned would seem alive until then: the
        scheduler has forgotten that it was leaving.
        """
        ids = {entry["id"] for entry in entries if entry["id"] != "driver"}
        known = self.json(self.context.schedulerBackend().getExecutorIds()) if ids else ()
        return ids.difference(known)

    def _memory(self, peaks: Mapping[str, int]) -> ExecutorMemory:
        """Return what the peaks of an executor's metrics say; Spark reports 0 for unknown."""
        process = sum(peaks.get(name, 0) for name in _PROCESS_TREE)
        heap_limit, limit = self._memory_limits
        return ExecutorMemory(peaks.get(_HEAP) or None, heap_limit, process or None, limit)

    @cached_property
    def _memory_limits(self) -> tuple[int, int | None]:
        """The heap of an executor, and all that its container may use where that is set."""
        conf, master = self.context.conf(), self.context.master()
        heap = conf.getSizeAsMb("spark.executor.memory", "1g") << 20
        if not master.startswith(_CONTAINERS) or not conf.contains(_OVERHEAD):
            return heap, None
        off_heap = 0
        if conf.getBoolean("spark.memory.offHeap.enabled", False):
            off_heap = conf.getSizeAsBytes("spark.memory.offHeap.size", "0")
        others = sum(conf.getSizeAsMb(name, "0") for name in (_OVERHEAD, _PYTHON))
        return heap, heap + off_heap + (others << 20)

    def _without_tasks(self, entries: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the executors to which Spark sends no task any more."""
        passed_over = {entry["id"] for entry in entries if entry["isExcluded"]}
        backend = self.context.schedulerBackend()
        if len(entries) > 1 and not backend.executorsPendingDecommission().isEmpty():
            ids = [entry["id"] for entry in entries if entry["id"] != "driver"]
            passed_over.update(name for name in ids if not backend.isExecutorActive(name))
        return passed_over

    def request_executors(self, total: int) -> bool:
        """Ask the cluster for ``total`` executors; ``False`` where it cannot be asked."""
        return bool(self.context.requestTotalExecutors(total, 0, self.scala_map()))

    def decommissions(self) -> bool:
        """Whether executors that leave end what they run first."""
        return self.spark.conf.get("spark.decommission.enabled", "false") == "true"

    def retire_executors(self, ids: Sequence[str]) -> None:
        """Let the executors end: no new task goes to them, and they hand over their shuffle files.

        Where decommissioning is off they are killed, and a batch that needs their shuffle files
        computes these again. The cluster's target falls by their number.
        """
        if not self.decommissions():
            self.context.killExecutors(self.seq(ids))
            return
        info = self.jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "released by elastream", self.jvm.scala.Option.empty()
        )
        backend = self.context.schedulerBackend()
        for executor in ids:
            backend.decommissionExecutor(executor, info, True, False)

    def rows_on(self, executor: ExecutorEntry, session: SparkSession, rows: int) -> DataFrame:
        """Return a table of a few words, one a partition, each read on this executor."""
        from pyspark.sql import DataFrame

        pair, location = self.jvm.scala.Tuple2, self.preferring(executor)
        placed = self.seq(pair(str(number), location) for number in range(rows))
        words = self.context.makeRDD(placed, self.class_tag("java.lang.String"))
        text = self.jvm.org.apache.spark.sql.Encoders.STRING()
        return DataFrame(session._jsparkSession.createDataset(words, text).toDF(), session)

    def provider_id(self, operator: StatefulOperator, partition: int, store: str) -> Any:
        """Return the JVM's name of one state store."""
        run = self.jvm.java.util.UUID.fromString(operator.run_id)
        store_id = self._state.StateStoreId(operator.root, operator.id, partition, store)
        return self._state.StateStoreProviderId(store_id, run)

    def location(self, provider_id: Any) -> str | None:
        """Return the id of the executor that the coordinator believes holds the store."""
        found = self.coordinator.getLocation(provider_id)
        if found.isEmpty():
            return None
        return str(found.get()).removeprefix(_LOCATION_PREFIX).rpartition("_")[2]

    def report(self, provider_id: Any, executor: ExecutorEntry) -> None:
        """Report to the coordinator that the executor holds the store: its task goes there."""
        self.coordinator.reportActiveInstance(
            provider_id, executor.host, executor.id, self._nothing
        )

    def delete_folders(self, beginning: str) -> None:
        """Delete every folder whose path begins so, with all in it, on whatever file system."""
        first = self.jvm.org.apache.hadoop.fs.Path(beginning)
        system = first.getFileSystem(self.context.hadoopConfiguration())
        parent, name = first.getParent(), first.getName()
        # no pattern: what is in the path of a user may mean something in one
        for status in system.listStatus(parent) if system.exists(parent) else ():
            if status.getPath().getName().startswith(name):
                system.delete(status.getPath(), True)

    def java_objects(self, values: Sequence[Any]) -> Any:
        """Return an array of the JVM."""
        return java_array(self.spark.sparkContext._gateway, self.jvm.java.lang.Object, values)

    def forget_session_of(self, query: StreamingQuery) -> None:
        """Take the listener of an ended query's own session off the bus.

        A query clones a session for itself. Spark registers a listener of the clone as soon as that
        is asked for its queries, as any stateful batch does, and never takes it back: it keeps the
        clone in memory as long as the application lives. Only the query knows the clone.
        """
        from py4j.protocol import Py4JError

        try:
            manager: Any = query._jsq.streamingQuery().sparkSessionForStream().streams()
            field = manager.getClass().getDeclaredField("listenerBus")
            field.setAccessible(True)
            self.listener_bus().removeListener(field.get(manager))
        except Py4JError:  # a Spark that keeps it elsewhere: then it stays, as with any query
            return

    def preferring(self, executor: ExecutorEntry) -> Any:
        """Return the places that a partition prefers that shall be computed on an executor."""
        return self.seq([f"{_LOCATION_PREFIX}{executor.host}_{executor.id}"])


def keep_first_executors(context: SparkContext, keep: int, total: int) -> None:
    """Take the last of the executors away that a local cluster has just launched.

    The cluster numbers them from 0; called before they register, it spares their start.
    """
    scala_context, jvm = context._jsc.sc(), JvmValues(context._jvm)
    scala_context.requestTotalExecutors(keep, 0, jvm.scala_map())
    surplus = jvm.seq(str(number) for number in range(keep, total))
    scala_context.schedulerBackend().doKillExecutors(surplus)


def missing_name(jvm: Any, class_name: str, methods: Iterable[str]) -> str | None:
    """Return the class, or the first of these methods, public or not, that this Spark lacks."""
    from py4j.protocol import Py4JJavaError

    try:
        found = jvm.java.lang.Class.forName(class_name)
    except Py4JJavaError:
        return class_name
    names = _names_of(jvm, found.getMethods()) | _names_of(jvm, found.getDeclaredMethods())
    return next((f"{class_name}.{name}" for name in methods if name not in names), None)


def _names_of(jvm: Any, methods: Any) -> frozenset[str]:
    """Return the names of methods of the JVM, in a few calls however many they are."""
    anything, number = jvm.java.lang.Class.forName("java.lang.Object"), len(methods)
    objects = jvm.java.lang.reflect.Array.newInstance(anything, number)  # what py4j can pass on
    jvm.java.lang.System.arraycopy(methods, 0, objects, 0, number)
    return frozenset(re.findall(r"([\w$]+)\(", jvm.java.util.Arrays.toString(objects)))
