"""The session of a job: executors on this machine, checkpoints that tell of every batch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.spark.sessions.class_training import ensure_archive
from elastream.spark.sessions.embedded_cluster import (
    EmbeddedCluster,
    embedded_session,
    scratch_folder,
)
from elastream_lab.harness.commit_log import RETAIN_ALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def job_session(
    cluster: EmbeddedCluster, say: Callable[[str], None] | None = None
) -> Iterator[SparkSession]:
    """Give an embedded session in which jobs can be watched by their checkpoints.

    The first on a machine makes the archive of classes that lets executors start quickly, and
    shows ``say`` so.
    """
    ensure_archive(cluster, say)
    with embedded_session(replace(cluster, config=RETAIN_ALL | dict(cluster.config))) as spark:
        yield spark


def fresh_folder(spark: SparkSession) -> Path:
    """Return a new folder for the clocks and checkpoints of a job; it goes with the session."""
    return Path(tempfile.mkdtemp(dir=scratch_folder(spark)))
