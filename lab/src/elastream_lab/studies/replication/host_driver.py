"""The driver of a taxi run on one host, its executors on others; prints what came of it as JSON.

``python -m elastream_lab.studies.replication.host_driver SETTINGS`` is started on the host of the
driver by :mod:`~elastream_lab.studies.replication.hosts`. Its temporary folder is one that all
hosts share.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from elastream.core.policy import Policy
from elastream.model.errors import ElastreamError, SparkError
from elastream.replication.goal.goal import Replication, ReplicationMemory
from elastream.replication.model.problem import Weights
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import JVM_OPTIONS
from elastream.spark.sessions.settings import session_settings
from elastream_lab.applications.taxi.job import QUERY, SESSION
from elastream_lab.applications.taxi.run import TaxiRun, TaxiSettings, prepared, run
from elastream_lab.harness.commit_log import RETAIN_ALL
from elastream_lab.harness.response_time import responses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_START_S: Final = 600.0
_LOOSE_MS: Final = 60_000.0
"""A bound that is never broken: plans are for the shortest response time, not for a bound."""


def main(given: str) -> None:
    """Run the taxi query, and tell."""
    wanted = json.loads(given)
    settings = TaxiSettings(**wanted["taxi"])
    goal = Replication(
        response_ms=_LOOSE_MS,
        weights=Weights(1, 0, 1),  # the first plan moves freely, those after it for a reason
        max_replicas=settings.executors,
        pins={QUERY: wanted["pinned"]} if wanted["pinned"] else {},
        probes=wanted["probes"],
        period_s=wanted["period_s"],
        cooldown_s=5.0,
    )
    policy = Policy(max_executors=settings.executors, goal=goal, cooldown_s=5.0)
    spark = _session(wanted["master"], wanted["address"], settings.executors)
    hosts = {entry.id: entry.host for entry in SparkInternals.of(spark).executors()}
    with prepared(settings) as taxi:
        folder = Path(tempfile.mkdtemp())
        run(taxi, spark, show=lambda _: None, policy=policy, folder=folder)
        print(json.dumps(_outcome(taxi, hosts)), flush=True)


def _session(master: str, address: str, executors: int) -> SparkSession:
    from pyspark.sql import SparkSession

    settings = {
        **session_settings(),
        **SESSION,
        **RETAIN_ALL,
        "spark.executor.cores": "1",
        "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": JVM_OPTIONS,
        "spark.driver.host": address,
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(master).appName("elastream taxi")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    internals, deadline = SparkInternals.of(spark), time.monotonic() + _START_S
    while len(internals.executors()) < executors:
        if time.monotonic() > deadline:
            raise SparkError(f"{len(internals.executors())} of {executors} executors have come")
        time.sleep(0.2)
    return spark


def _outcome(taxi: TaxiRun, hosts: dict[str, str]) -> dict[str, Any]:
    """Return the response times of the second half, when plans have been carried out."""
    start_ms = float(taxi.start_ms or 0)
    due_ms = taxi.trips.recording.due_ms
    half = taxi.lead_rows + (taxi.trips.recording.rows - taxi.lead_rows) // 2
    later = [batch for batch in taxi.batches if batch.start >= half]
    rows = responses(due_ms, start_ms, later, first=half).response_ms
    last = taxi.samples[-1].replicas if taxi.samples else {}
    memory = taxi.memory
    learnt = memory if isinstance(memory, ReplicationMemory) else ReplicationMemory()
    speeds = learnt.experience.speeds
    return {
        "response_ms": float(rows.mean()),
        "batch_ms": sorted(batch.duration_ms for batch in later),
        "replicas": {op: sorted({hosts[e] for e in on if e in hosts}) for op, on in last.items()},
        "apart_ms": [[*pair, ms] for pair, ms in learnt.round_trips_ms.items()],
        "stages_ms": [median(ms for _, ms in points) for points in learnt.points.values()],
        "outside_ms": sum(learnt.outside_ms.values()),
        "speeds": {host: speeds[e] for e, host in hosts.items() if e in speeds},
        "changes": len(taxi.changes),
        "plans": [each.reason for each in taxi.decisions if each.kind in _STORY],
        "exact": taxi.exact,
    }


_STORY: Final = ("scale-out", "scale-in", "rebalance", "done", "abandon")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ElastreamError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(1)
