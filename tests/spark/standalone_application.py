"""An application of a user's own on a standalone master: ``python -m … MASTER CHECKPOINT``.

It builds its session itself, as a user does, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from queue import Queue

from pyspark.sql import SparkSession
from tests.spark.running_query import PATIENCE_S, committed_rows
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream import ByHand, Decision, Policy, attach, session_settings
from elastream.core.decisions import line_of

LEAD_BATCHES = 5


def main(master: str, checkpoint: str) -> None:
    settings = {
        **session_settings(),
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    stream = aggregation(spark).writeStream.format("noop").outputMode("update")
    query = stream.option("checkpointLocation", checkpoint).start()
    policy = Policy(max_executors=2, goal=ByHand(), tau=0.5)
    ends: Queue[Decision] = Queue()
    holders = []
    with attach(query, policy, log=lambda decision: on_decision(decision, ends)) as attachment:
        while query.lastProgress is None or query.lastProgress.batchId < LEAD_BATCHES:
            time.sleep(0.1)
        for executors in (2, 1, 2):  # an executor that came too late for the first batch has none
            attachment.scale_to(executors)
            end = ends.get(timeout=PATIENCE_S)
            assert end.kind == "done", end.reason
            holders.append(len(set(attachment.where().values())))
    query.stop()
    exact = aggregation_state(spark, checkpoint) == aggregation_answer(
        committed_rows(Path(checkpoint))
    )
    print(json.dumps({"master": spark.sparkContext.master, "holders": holders, "exact": exact}))
    spark.stop()


def on_decision(decision: Decision, ends: Queue[Decision]) -> None:
    print(line_of(decision), file=sys.stderr)
    if decision.kind in ("done", "abandon", "refuse"):
        ends.put(decision)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
