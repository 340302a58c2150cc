"""Executors as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def kill(spark: SparkSession, executor: str) -> None:
    """Kill the process of an executor of this session, as a machine would die."""
    app = spark.sparkContext.applicationId
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True
    )
    (pid,) = (
        int(line.split()[0])
        for line in listed.stdout.splitlines()
        if f"--executor-id {executor} " in line and f"--app-id {app} " in line and "/java" in line
    )
    os.kill(pid, signal.SIGKILL)
