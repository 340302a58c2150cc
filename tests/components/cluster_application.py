"""An elastic application on the cluster manager of others: ``python -m … SETTINGS``, in JSON.

It builds its session as a user does, takes one command a line, in JSON, and answers with one line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

from tests.spark.running_query import BY_HAND, PATIENCE_S, committed_rows
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream import Attachment, Decision, attach, session_settings
from elastream.core.decisions import line_of
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import JVM_OPTIONS
from elastream.spark.sessions.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS = ("done", "abandon", "refuse")
SETTINGS = {
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": JVM_OPTIONS,
    "spark.driver.extraJavaOptions": JVM_OPTIONS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}


class Commands:
    """What the application can be asked to do."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._internals = SparkInternals.of(spark)
        self._ends: Queue[Decision] = Queue()
        self._attachment: Attachment | None = None
        stream = aggregation(spark).writeStream.format("noop").outputMode("update")
        stream = stream.queryName("counts").trigger(processingTime="500 milliseconds")
        self._query = stream.option("checkpointLocation", str(checkpoint)).start()

    def application(self) -> str:
        """Return what the cluster manager calls this application."""
        return str(self._spark.sparkContext.applicationId)

    def attach(self, grow_timeout_s: float = PATIENCE_S) -> int:
        """Attach the loop again; return how many tasks it sees when it has seen all."""
        if self._attachment is not None:
            self._attachment.detach()
        policy = replace(BY_HAND, timeouts=replace(BY_HAND.timeouts, grow_s=grow_timeout_s))
        self._attachment = attach(self._query, policy, log=self._heard)
        self.pass_batches(2)
        return len(self.where())

    def scale(self, executors: int) -> list[str]:
        """Ask for another number of executors; return how that ended, and why."""
        assert self._attachment is not None
        self._attachment.scale_to(executors)
        end = self._ends.get(timeout=PATIENCE_S)
        return [end.kind, end.reason]

    def executors(self) -> dict[str, dict[str, str]]:
        """Return the executors that are alive: the host of each, and what else Spark knows."""
        entries = self._internals.json(self._internals.context.statusStore().executorList(True))
        known = {each["id"]: each["attributes"] for each in entries}
        return {
            entry.id: {"host": entry.host, **known.get(entry.id, {})}
            for entry in self._internals.executors()
        }

    def where(self) -> dict[str, str]:
        """Return on which executor each task of the query was last."""
        assert self._attachment is not None
        return {str(task): node for task, node in self._attachment.where().items()}

    def pass_batches(self, number: int) -> None:
        """Let batches go by."""
        last = self._query.lastProgress
        wanted = (-1 if last is None else last.batchId) + number
        deadline = time.monotonic() + PATIENCE_S
        while (last := self._query.lastProgress) is None or last.batchId < wanted:
            assert self._query.isActive, self._query.exception()
            assert time.monotonic() < deadline, "no batch for a long time"
            time.sleep(0.1)

    def finish(self) -> list[Any]:
        """Stop the query; return how many rows it has read, and whether its counts are exact."""
        self._query.stop()
        rows = committed_rows(self._checkpoint)
        found = aggregation_state(self._spark, str(self._checkpoint))
        return [rows, found == aggregation_answer(rows)]

    def _heard(self, decision: Decision) -> None:
        print(line_of(decision), file=sys.stderr, flush=True)
        if decision.kind in ENDS:
            self._ends.put(decision)


def main(given: str) -> None:
    from pyspark.sql import SparkSession

    fields = json.loads(given)
    os.environ["JAVA_HOME"] = str(java_home())
    builder = SparkSession.builder.master(fields["master"]).appName("counts")
    for name, value in {**session_settings(local_disk=True), **SETTINGS, **fields["conf"]}.items():
        builder = builder.config(name, value)
    commands = Commands(builder.getOrCreate(), Path(fields["checkpoint"]))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(getattr(commands, asked.pop("ask"))(**asked)), flush=True)
    commands._spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
