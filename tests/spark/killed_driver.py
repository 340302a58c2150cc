"""A driver that dies in a migration: ``python -m tests.spark.killed_driver DIR PHASE``.

The phase is the loop's own word for it: ``Copying``, ``Moving``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.spark.running_query import BY_HAND, PATIENCE_S
from tests.spark.streams import aggregation, totals

from elastream import attach
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded


def main(folder: str, phase: str) -> None:
    cluster = EmbeddedCluster(
        executors=2,
        max_executors=3,
        executor_memory_mb=700,
        config={"spark.sql.shuffle.partitions": "4"},
    )
    spark = embedded(cluster, timeout_s=PATIENCE_S)
    policy = replace(
        BY_HAND,
        movement=replace(BY_HAND.movement, moves_per_batch=1, warm_up=False, copy_least_bytes=0),
    )
    with attach(spark, policy) as attachment:
        for name, frame, mode in (
            ("keyed", aggregation(spark), "update"),
            ("whole", totals(spark), "complete"),
        ):
            writer = frame.writeStream.format("noop").outputMode(mode).queryName(name)
            writer.trigger(processingTime="500 milliseconds")
            writer.option("checkpointLocation", str(Path(folder) / name)).start()
        while len(attachment.where()) < 5:
            time.sleep(0.1)
        attachment.scale_to(3)
        while type(attachment.state.phase).__name__ != phase:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
