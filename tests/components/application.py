"""An elastic application in a process of its own, so that it can be killed.

``python -m tests.components.application SETTINGS`` takes one command a line, in JSON, and answers
with one line. What its batches did goes to ``batches.jsonl`` in the folder, what the loop decided
to ``decisions.jsonl``.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.components import frames
from tests.components.parts import spark_jars
from tests.components.sparks import DELTA_SETTINGS, with_delta
from tests.spark.processes import kill
from tests.spark.running_query import BY_HAND, PATIENCE_S

from elastream import Attachment, Policy, Utilisation, attach
from elastream.model.observation import BatchObservation
from elastream.resilience.spark.watching import batches_of
from elastream.spark.observe.endings import ending
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CATCH_UP_S = 90.0
POLICIES = {
    "by hand": BY_HAND,
    "by lag": replace(
        BY_HAND,
        goal=Utilisation(catch_up_s=CATCH_UP_S),
        tau=0.2,
        patience=2,
        cooldown_s=5,
        movement=replace(BY_HAND.movement, settle_batches=1),
    ),
}


class Commands:
    """What the application can be asked to do."""

    def __init__(self, spark: SparkSession, attachment: Attachment) -> None:
        self._spark = spark
        self._attachment = attachment
        self._queries: dict[str, StreamingQuery] = {}

    def start(
        self,
        name: str,
        sink: str,
        out: str,
        checkpoint: str,
        trigger: str = "1 second",
        **source: Any,
    ) -> None:
        """Start a query: ``counts`` into a topic, or ``first seen`` into a table."""
        shape = frames.first_seen if sink == "delta" else frames.counts
        writer = shape(self._spark, **source).writeStream.queryName(name).format(sink)
        writer = writer.option("checkpointLocation", checkpoint).trigger(processingTime=trigger)
        if sink == "kafka":
            options = frames.kafka_options(source["servers"])
            writer = writer.outputMode("update").options(**options).option("topic", out)
        else:
            writer = writer.outputMode("append").option("path", out)
        self._queries[name] = writer.start()

    def status(self, name: str) -> dict[str, Any]:
        """Return whether a query runs, and what ended it."""
        query = self._queries[name]
        fault = query.exception()
        return {"runs": query.isActive, "fault": None if fault is None else ending(str(fault))}

    def where(self) -> dict[str, int]:
        """Return how many tasks each executor has run in the last batches."""
        nodes = list(self._attachment.where().values())
        return {node: nodes.count(node) for node in nodes}

    def scale(self, executors: int) -> bool:
        """Go to another number of executors, and wait for it."""
        self._attachment.scale_to(executors)
        return self._attachment.wait(PATIENCE_S)

    def shuffle(self) -> bool:
        """Move every task to another executor, and wait for it."""
        ids = sorted(executor.id for executor in self._attachment.executors())
        where = self._attachment.where()
        self._attachment.move(
            {task: ids[(ids.index(node) + 1) % len(ids)] for task, node in where.items()}
        )
        return self._attachment.wait(PATIENCE_S)

    def kill(self) -> str:
        """Kill the executor that holds most tasks."""
        held = self.where()
        victim = max(held, key=lambda node: held[node])
        kill(self._spark, victim)
        return victim

    def compact(self, path: str) -> None:
        """Begin to compact a table, again and again, next to the query that writes it."""
        threading.Thread(target=self._compact, args=(path,), daemon=True).start()

    def _compact(self, path: str) -> None:
        while not threading.Event().wait(2.0):
            self._spark.sql(f"OPTIMIZE delta.`{path}`").collect()

    def stop(self, name: str) -> None:
        """Stop a query."""
        self._queries[name].stop()


def main(given: str) -> None:
    settings = json.loads(given)
    folder = Path(settings["folder"])
    delta = with_delta()
    cluster = EmbeddedCluster(
        executors=settings["executors"],
        max_executors=3,
        executor_memory_mb=700,
        config={
            "spark.sql.shuffle.partitions": str(frames.PARTITIONS),
            **spark_jars("kafka-connector", *(["delta"] if delta else [])),
            **(DELTA_SETTINGS if delta else {}),
        },
    )
    policy: Policy = POLICIES[settings["policy"]]
    spark = embedded(cluster, timeout_s=PATIENCE_S)
    with (
        (folder / "batches.jsonl").open("a", buffering=1) as batches,
        attach(spark, policy, log=folder / "decisions.jsonl") as attachment,
    ):

        def note(seen: BatchObservation) -> None:
            report = {"query": seen.query, "batch": seen.batch, "rows": seen.rows}
            report |= {"backlog": seen.backlog, "at_ms": seen.finished_at_ms}
            batches.write(json.dumps({**report, "duration_ms": seen.duration_ms}) + "\n")

        batches_of(attachment.monitor, note)
        commands = Commands(spark, attachment)
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            answer = getattr(commands, asked.pop("ask"))(**asked)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
