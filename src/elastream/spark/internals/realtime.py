"""What Real-time queries need of Spark: slots that are counted or held, and the CPU time of tasks.

All tasks of a Real-time batch need a slot at once. Spark counts the slots when it submits the
batch, and ends the query where they are too few. So they are counted here as Spark counts them:
what the executors have, minus the tasks of all jobs, waiting ones included.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from elastream.spark.internals.java_text import generated_code
from elastream.spark.internals.jvm_values import first_line
from elastream.spark.internals.keepers import run_on
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals, missing_name
from elastream.spark.observe.own_work import marked

_log = logging.getLogger(__name__)

_SCHEDULER: Final = "org.apache.spark.scheduler.TaskSchedulerImpl"
_SCAN: Final = "org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    _SCHEDULER: ("outstandingTasksForOtherWorkInProfile",),
    "org.apache.spark.SparkContext": ("maxNumConcurrentTasks",),
    _SCAN: ("inputRDD",),
    f"{_SCAN.rpartition('.')[0]}.LowLatencyReaderFactoryWrap": ("lowLatencyEndTime",),
}
_MOST_TASKS: Final = 10_000
_SILENT_S: Final = 15.0
"""An executor that reports no new CPU times for this long is not expected to."""
_HOLD_S: Final = 600.0
"""How long an executor is held at most, should nothing release it."""


def why_unsteered(internals: SparkInternals) -> str | None:
    """Return what a query in Real-time Mode does not allow here; ``None`` where it is steered."""
    version = internals.spark.version
    if not internals.variant.has_stateful_realtime:
        return f"runs in Real-time Mode, which Spark {version} has for queries without state only"
    missing = (missing_name(internals.jvm, name, methods) for name, methods in _NEEDED.items())
    lacking = next((each for each in missing if each is not None), None)
    if lacking is not None:
        return f"runs in Real-time Mode, and Spark {version} lacks what that needs: {lacking}"
    return None


@dataclass(frozen=True, slots=True)
class SlotCount:
    """The slots of the application, as Spark counts them for a Real-time batch."""

    total: int
    taken: int
    """By tasks of all jobs, waiting ones included."""


def count_slots(internals: SparkInternals, but: Iterable[int] = ()) -> SlotCount:
    """Count the slots of all executors that get tasks; those taken by stages ``but`` as free."""
    context = internals.context
    profile = context.resourceProfileManager().defaultResourceProfile()
    stages = internals.scala_map(dict.fromkeys(but, True)).keySet()
    taken = context.taskScheduler().outstandingTasksForOtherWorkInProfile(profile.id(), stages)
    return SlotCount(int(context.maxNumConcurrentTasks(profile)), int(taken))


def running_stages(internals: SparkInternals, run_id: str) -> frozenset[int]:
    """Return the stages of the jobs that a run of a query has under way."""
    tracker = internals.context.statusTracker()
    found: set[int] = set()
    for job in tracker.getJobIdsForGroup(run_id):
        info = tracker.getJobInfo(job)
        if info.isDefined() and info.get().status().name() == "RUNNING":
            found.update(int(stage) for stage in info.get().stageIds())
    return frozenset(found)


def rows_read(internals: SparkInternals, stages: Iterable[int]) -> int:
    """Return the rows that running tasks of these stages have read from sources so far.

    As their last heartbeats have it: with Spark's defaults that is 10 seconds old.
    """
    store, rows = internals.context.statusStore(), 0
    for stage in stages:
        for task in internals.json(store.taskList(stage, 0, _MOST_TASKS)):
            inputs = (task.get("taskMetrics") or {}).get("inputMetrics") or {}
            rows += int(inputs.get("recordsRead", 0))
    return rows


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """The CPU time that the tasks of one executor have used so far."""

    at_ms: int
    """By the executor's own clock."""
    gauge: int
    """Which gauge of the executor says so: each counts from its own beginning."""
    tasks: Mapping[int, int]
    """In ms, by the id of the task."""


class Silence:
    """Notices executors whose reports are no longer new."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}
        """Of each executor its last report, and when it was read first."""

    def is_silent(self, executor: str, at_ms: int, now_s: float) -> bool:
        """Whether the report that was made at ``at_ms`` should have been replaced by now.

        True once; the executor has as much time again after that.
        """
        last_ms, since_s = self._last.get(executor, (None, now_s))
        if at_ms == last_ms and now_s - since_s < _SILENT_S:
            return False
        self._last[executor] = (at_ms, now_s)
        return at_ms == last_ms


class Gauges:
    """Read the CPU time of running tasks; ``gauge.java`` says how. One for an attachment."""

    def __init__(self, internals: SparkInternals) -> None:
        self._internals = internals
        self._mailbox = str(uuid.uuid4())
        self._begun: set[str] = set()
        self._code: Any = None
        self._silence = Silence()

    def begin(self, executors: Sequence[ExecutorEntry]) -> None:
        """Let executors report, each by a task of a few milliseconds; returns at once."""
        if self._code is None:
            self._internals.coordinator.reportActiveInstance(
                self._mail("open"), "driver", "driver", self._internals.seq(())
            )
            self._code = generated_code(
                self._internals.jvm, "gauge.java", "names.java", "errand.java"
            )
        for executor in executors:
            self._begun.add(executor.id)
            name = f"elastream-gauge-{executor.id}"
            threading.Thread(target=self._start, args=(executor,), name=name, daemon=True).start()

    def _start(self, executor: ExecutorEntry) -> None:
        try:
            with marked(self._internals.spark):
                why = run_on(self._internals, executor, self._code, [executor.id, self._mailbox])
        except Exception as error:
            why = first_line(error)
        if why:
            self._begun.discard(executor.id)  # tried again with the next report
            _log.debug("executor %s reports no CPU times yet: %s", executor.id, why)

    def has(self, executor: str) -> bool:
        """Whether the executor was asked to report."""
        return executor in self._begun

    def read(self, executor: str) -> CpuTimes | None:
        """Return the last report of an executor; ``None`` where there is none yet."""
        found = self._internals.coordinator.getLocation(self._mail(f"from {executor}"))
        if found.isEmpty():
            return None
        text = str(found.get())
        report = json.loads(text[text.index("{") : text.rindex("}") + 1])
        if self._silence.is_silent(executor, report["at"], time.monotonic()):
            self._begun.discard(executor)  # begun again with the next report
            _log.warning("executor %s no longer reports CPU times: started again", executor)
        tasks = {int(task): ms for task, ms in report["tasks"].items()}
        return CpuTimes(report["at"], report["gauge"], tasks)

    def close(self) -> None:
        """Let all executors stop reporting."""
        if self._code is None:
            return
        run = self._internals.jvm.java.util.UUID.fromString(self._mailbox)
        self._internals.coordinator.deactivateInstances(run)

    def _mail(self, name: str) -> Any:
        state = self._internals.jvm.org.apache.spark.sql.execution.streaming.state
        run = self._internals.jvm.java.util.UUID.fromString(self._mailbox)
        return state.StateStoreProviderId(state.StateStoreId("elastream", 0, 0, name), run)


class SlotHold:
    """Slots of one executor that tasks of our own take, until :meth:`release`."""

    def __init__(self, internals: SparkInternals, executor: ExecutorEntry, slots: int) -> None:
        self.executor = executor.id
        self._internals = internals
        self._group = f"elastream hold {uuid.uuid4()}"
        self._released = threading.Event()
        self._thread = threading.Thread(
            target=self._hold, args=(executor, slots), name="elastream-hold", daemon=True
        )
        self._thread.start()

    def release(self) -> None:
        """Let the slots go. Idempotent."""
        self._released.set()
        self._internals.context.cancelJobGroupAndFutureJobs(self._group)  # also one under way

    def wait(self, timeout_s: float) -> bool:
        """Return whether the slots are free, within this time after :meth:`release`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _hold(self, executor: ExecutorEntry, slots: int) -> None:
        internals = self._internals
        context = internals.spark.sparkContext
        try:
            code = generated_code(internals.jvm, "hold.java", "names.java", "errand.java")
            context.setJobGroup(self._group, "elastream", interruptOnCancel=True)
            with marked(internals.spark):
                if not self._released.is_set():
                    references = [executor.id, round(1000 * _HOLD_S)]
                    run_on(internals, executor, code, references, tasks=slots)
        except Exception:
            if not self._released.is_set() and internals.is_alive():
                _log.warning("executor %s is not held", executor.id, exc_info=True)
