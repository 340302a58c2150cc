"""A driver that dies in the middle of a migration: ``python -m tests.spark.killed_driver DIR``."""

from __future__ import annotations

import os
import signal
import sys
import time

from tests.spark.streams import aggregation

from elastream import Policy, attach
from elastream.control.decisions import Decision
from elastream.spark.cluster import EmbeddedCluster, embedded


def main(checkpoint: str) -> None:
    cluster = EmbeddedCluster(
        executors=2,
        max_executors=3,
        executor_memory_mb=700,
        config={"spark.sql.shuffle.partitions": "4"},
    )
    spark = embedded(cluster, timeout_s=300)
    stream = aggregation(spark).writeStream.format("noop").outputMode("update")
    query = stream.option("checkpointLocation", checkpoint).start()
    policy = Policy(max_executors=3, patience=10**6, tau=0.5, moves_per_batch=1, warm_up=False)
    attachment = attach(query, policy, log=die_in_a_migration)
    while len(set(attachment.placement.where().values())) < 2:
        time.sleep(0.1)
    attachment.controller.scale_to(3)
    query.awaitTermination(300)


def die_in_a_migration(decision: Decision) -> None:
    if decision.kind == "migrate":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
