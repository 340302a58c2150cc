"""The cluster of the studies on Spark: executors that hold on to their tasks."""

from __future__ import annotations

from elastream.spark.sessions.embedded_cluster import EmbeddedCluster

_WAIT = "10min"
"""Far longer than any backlog: a task that waits for its executor must not end up on another one,
which would be a placement that no one asked for."""


def study_cluster(executors: int) -> EmbeddedCluster:
    """Return executors of one core each, whose checkpoints are in memory."""
    return EmbeddedCluster(
        executors=executors,
        max_executors=executors,
        executor_memory_mb=700,
        checkpoint_in_memory=True,
        app_name="elastream study",
        config={
            "spark.sql.shuffle.partitions": "4",
            "spark.locality.wait": _WAIT,
            "spark.locality.wait.process": _WAIT,
        },
    )
