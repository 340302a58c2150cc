"""A driver whose JVM dies while the loop looks on: ``python -m tests.spark.killed_jvm DIR``."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from tests.spark.running_query import BY_HAND, PATIENCE_S
from tests.spark.streams import aggregation

from elastream import attach
from elastream.attachment.application import APPLICATIONS
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, stop


def main(folder: Path) -> None:
    cluster = EmbeddedCluster(
        executors=1, max_executors=1, config={"spark.sql.shuffle.partitions": "2"}
    )
    spark = embedded(cluster, timeout_s=PATIENCE_S)
    attachment = attach(spark, BY_HAND, log=folder / "decisions.jsonl", page=0)
    writer = aggregation(spark).writeStream.format("noop").outputMode("update").queryName("q")
    writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    while not attachment.where():
        time.sleep(0.1)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    gateway.proc.kill()
    gateway.proc.wait()
    assert not attachment._application.internals.is_alive()
    attachment.detach()
    stop(spark)
    assert not APPLICATIONS
    assert not [each.name for each in threading.enumerate() if each.name.startswith("elastream")]
    print("left well")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
