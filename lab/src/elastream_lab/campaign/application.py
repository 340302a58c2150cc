"""The application of a run, in a process of its own so that it can be killed.

``python -m elastream_lab.campaign.application FOLDER`` starts the queries of the scenario, or goes
on with them, and attaches. It takes one command a line on standard input and shows on standard
output, a line of JSON each, what there is to tell: its phase as it changes, with the executors that
the loop knows; decisions; queries that failed, which it starts again; and what was left in the
end. It ends by itself where its JVM has died.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream_lab.campaign.folders import Folders
from elastream_lab.campaign.moved_clock import MovedClock
from elastream_lab.campaign.queries import AGAIN_S, TRIGGER, Queries
from elastream_lab.campaign.scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream import Attachment, Decision


JVM_GONE: Final = 7
"""The exit code where the JVM has died."""
_LOOK_S: Final = 0.002
_PATIENCE_S: Final = 600.0
_STORES: Final = {
    "hdfs": "HDFSBackedStateStoreProvider",
    "rocksdb": "RocksDBStateStoreProvider",
    "rocksdb changelog": "RocksDBStateStoreProvider",
}


class Teller:
    """Tells the other side, a line each, from whatever thread."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        self._lock = threading.Lock()
        os.dup2(2, 1)  # whatever else is printed is not for the other side

    def tell(self, **what: Any) -> None:
        """Tell one thing."""
        with self._lock:
            self._out.write(json.dumps(what) + "\n")


class Commands:
    """What the other side may ask for."""

    def __init__(self, spark: SparkSession, attachment: Attachment, clock: MovedClock) -> None:
        self._spark = spark
        self._attachment = attachment
        self._clock = clock
        self._foreign: list[StreamingQuery] = []
        self.started = 0
        """How many queries of somebody else were started."""

    def scale(self, executors: int) -> None:
        """Ask for a number of executors."""
        self._attachment.scale_to(executors)

    def move(self) -> None:
        """Ask for every task on the next executor."""
        ids = sorted(executor.id for executor in self._attachment.executors())
        where = {task: node for task, node in self._attachment.where().items() if node in ids}
        wanted = {task: ids[(ids.index(node) + 1) % len(ids)] for task, node in where.items()}
        self._attachment.move(wanted)

    def jump(self, seconds: float) -> None:
        """Let the clock jump."""
        self._clock.jump(seconds)

    def come(self) -> None:
        """Start two queries of somebody else, with state and without."""
        for number, name in enumerate(("foreign_counts", "foreign_rows")):
            rows = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50)
            frame = rows.load()
            frame = frame if number else frame.groupBy("value").count()
            self.started += 1
            writer = frame.writeStream.queryName(name).format("noop").outputMode("update")
            self._foreign.append(writer.trigger(processingTime=TRIGGER).start())

    def go(self) -> None:
        """Stop them."""
        while self._foreign:
            self._foreign.pop().stop()


def main(folder: Path) -> int:
    """Run the application until it is asked to finish; return the exit code."""
    clock = MovedClock()
    clock.install()
    from elastream import attach
    from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, stop
    from elastream_lab.campaign import census
    from elastream_lab.campaign.policies import policy_of

    folders = Folders(folder)
    scenario = Scenario.from_json(folders.scenario.read_text())
    teller = Teller()
    asked: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    cluster = EmbeddedCluster(
        executors=scenario.executors,
        max_executors=scenario.max_executors,
        executor_memory_mb=600,
        driver_memory_mb=700,
        config=_settings(scenario),
    )
    spark = embedded(cluster, timeout_s=_PATIENCE_S)
    teller.tell(application=str(spark.sparkContext.applicationId))
    before = census.listeners(spark)
    queries = Queries(spark, scenario, folders, teller.tell)
    queries.start_all()
    target = spark if scenario.attach_to == "session" else list(queries.running.values())

    def decided(decision: Decision) -> None:
        teller.tell(decision=decision.kind, reason=decision.reason)

    policy = policy_of(scenario)
    attachment = attach(target, policy, log=[folders.log, decided])
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(attachment, teller.tell, ended), daemon=True)
    watcher.start()
    teller.tell(ready=True)
    commands = Commands(spark, attachment, clock)
    gone = _serve(asked, commands, queries, teller.tell)
    if not gone:
        commands.go()
        _stop_all(queries, teller.tell)
    attachment.detach()
    ended.set()
    watcher.join()
    started = queries.started + commands.started
    left = [] if gone else census.left_over(before, census.listeners(spark), started)
    stop(spark)
    time.sleep(AGAIN_S)  # a thread that was asked to end may be about to
    teller.tell(left=[*left, *census.threads()])
    return JVM_GONE if gone else 0


def _listen(asked: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        asked.put(json.loads(line))
    asked.put(None)


def _serve(
    asked: queue.SimpleQueue[dict[str, Any] | None],
    commands: Commands,
    queries: Queries,
    tell: Callable[..., None],
) -> bool:
    """Do what is asked until it is to finish and has; return whether the JVM has died instead."""
    finishing = False
    while not _jvm_gone():
        try:
            queries.start_all()
            if finishing and queries.finished():
                return _jvm_gone()
            command = asked.get(timeout=0.1)
            if command is None or command["ask"] == "finish":
                finishing = True
                continue
            getattr(commands, command.pop("ask"))(**command)
            tell(obeyed=True)
        except queue.Empty:
            continue
        except Exception as error:
            tell(obeyed=False, why=f"{type(error).__name__}: {str(error)[:300]}")
    return True


def _watch(attachment: Attachment, tell: Callable[..., None], ended: threading.Event) -> None:
    """Tell the phase whenever it changes, and who is there."""
    before: dict[str, Any] = {}
    while not ended.wait(_LOOK_S):
        state = attachment.state
        preparation = state.preparation
        leaving = sorted(state.phase.leaving)
        if preparation is not None and preparation.what == "releasing":
            leaving += preparation.ids
        now = {
            "phase": state.phase.name,
            "size": len(state.executors),
            "executors": [each.id for each in state.all_executors],
            "leaving": leaving,
        }
        if now != before:
            tell(**now)
            before = now


def _stop_all(queries: Queries, tell: Callable[..., None]) -> None:
    from elastream import SparkError, stop_gracefully

    for name, query in queries.running.items():
        try:
            stop_gracefully(query, timeout_s=_PATIENCE_S)
        except SparkError as error:
            tell(said=f"{name}: {error}")


def _jvm_gone() -> bool:
    from pyspark import SparkContext

    driver = getattr(SparkContext._gateway, "proc", None)
    return driver is not None and driver.poll() is not None


def _settings(scenario: Scenario) -> dict[str, str]:
    store = "spark.sql.streaming.stateStore"
    package = "org.apache.spark.sql.execution.streaming.state"
    changelog = str(scenario.store == "rocksdb changelog").lower()
    return {
        "spark.sql.shuffle.partitions": str(scenario.partitions),
        "spark.sql.session.timeZone": "UTC",
        f"{store}.providerClass": f"{package}.{_STORES[scenario.store]}",
        f"{store}.rocksdb.changelogCheckpointing.enabled": changelog,
        f"{store}.maintenanceInterval": f"{scenario.maintenance_s}s",
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
