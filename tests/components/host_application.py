"""An elastic application of a user's own whose driver runs on one host, its executors on others.

``python -m tests.components.host_application SETTINGS`` takes one command a line, in JSON, and
answers with one line. What the loop decided goes to ``decisions.jsonl`` in the folder.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.running_query import BY_HAND, PATIENCE_S, committed_rows, until
from tests.spark.streams import ROWS, WINDOW, windowed, windowed_answer

from elastream import Attachment, Decision, attach, read_decisions, session_settings
from elastream.resilience.spark.watching import batches_of
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.host_delays import HostProbe
from elastream.spark.sessions.embedded_cluster import JVM_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 6
LOST_AFTER_S = 30
"""How long Spark waits for a sign of life: as short as a busy machine allows."""


class Commands:
    """What the application can be asked to do."""

    def __init__(self, spark: SparkSession, folder: Path, attachment: Attachment) -> None:
        self._spark = spark
        self._folder = folder
        self._attachment = attachment
        self._batches = 0
        self._heard = threading.Condition()
        batches_of(attachment.monitor, lambda _: self._note())
        self._query = self._started()

    def _started(self) -> StreamingQuery:
        writer = windowed(self._spark).writeStream.outputMode("append").queryName("windows")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        writer = writer.trigger(processingTime="500 milliseconds").format("parquet")
        return writer.start(str(self._folder / "out"))

    def _note(self) -> None:
        with self._heard:
            self._batches += 1
            self._heard.notify_all()

    def batches(self, number: int) -> bool:
        """Wait until this many more batches are done; return whether they are."""
        with self._heard:
            wanted = self._batches + number
            return self._heard.wait_for(lambda: self._batches >= wanted, PATIENCE_S)

    def hosts(self) -> list[str]:
        """Return the hosts that have an executor."""
        return sorted(executor.host for executor in self._attachment.executors())

    def where(self) -> dict[str, int]:
        """Return how many tasks each host ran in the last batch."""
        host = {executor.id: executor.host for executor in self._attachment.executors()}
        return Counter(host.get(node, "gone") for node in self._attachment.where().values())

    def scale(self, executors: int) -> list[str]:
        """Go to another number of executors; return how that ended, and why."""
        before = len(self._ends())
        self._attachment.scale_to(executors)
        assert self._attachment.wait(PATIENCE_S)
        until(lambda: len(self._ends()) > before, "the log has it")
        end = self._ends()[before]
        return [end.kind, end.reason]

    def shuffle(self) -> bool:
        """Move every task to the next host; return whether all are there."""
        ids = sorted(executor.id for executor in self._attachment.executors())
        wanted = {
            task: ids[(ids.index(node) + 1) % len(ids)] if node in ids else ids[0]
            for task, node in self._attachment.where().items()
        }
        self._attachment.move(wanted)
        assert self._attachment.wait(PATIENCE_S)
        return dict(self._attachment.where()) == wanted

    def round_trips(self) -> list[list[Any]]:
        """Return what the loop's probe measures between all hosts, in milliseconds."""
        probe = self._attachment._application.controller._runtime.probe
        assert isinstance(probe, HostProbe)
        hosts = self.hosts()
        pairs = [(one, other) for one in hosts for other in hosts if one != other]
        return [[*pair, ms] for pair, ms in probe.round_trips_ms(pairs).items()]

    def runs(self) -> str | None:
        """Return what ended the query; nothing while it runs."""
        return str(self._query.exception()) if not self._query.isActive else None

    def stop(self) -> dict[str, Any]:
        """Stop the query, and hold what it put out against what is right."""
        self._query.stop()
        rows = self._spark.read.parquet(str(self._folder / "out")).collect()
        counts = Counter((row["start"], row["key"], row["n"]) for row in rows)
        windows = len({start for start, _, _ in counts})
        batches = committed_rows(self._folder / "checkpoint") // ROWS
        return {
            "exact": counts == windowed_answer(windows),
            "windows": windows,
            "due": batches // WINDOW - 2,  # the last two may not be closed yet
        }

    def _ends(self) -> list[Decision]:
        log = read_decisions(self._folder / "decisions.jsonl")
        return [each for each in log if each.kind in ("done", "abandon", "refuse")]


def session(master: str, address: str, executors: int) -> SparkSession:
    """Build a session as a user does."""
    from pyspark.sql import SparkSession

    settings = {
        **session_settings(),
        "spark.executor.cores": "1",
        "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": JVM_OPTIONS,
        "spark.driver.host": address,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.network.timeout": f"{LOST_AFTER_S}s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "3s",
    }
    builder = SparkSession.builder.master(master).appName("hosts")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # else this master gives an application every executor there is room for, also on later hosts
    SparkInternals.of(spark).request_executors(executors)
    return spark


def main(given: str) -> None:
    settings = json.loads(given)
    folder = Path(settings["folder"])
    spark = session(settings["master"], settings["address"], settings["executors"])
    with attach(spark, BY_HAND, log=folder / "decisions.jsonl") as attachment:
        commands = Commands(spark, folder, attachment)
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            answer = getattr(commands, asked.pop("ask"))(**asked)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
