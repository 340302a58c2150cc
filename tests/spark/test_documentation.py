"""Every example on Spark in the README and the docs runs, on live executors.

The examples of a page run in order. What they take as given (``tests/documentation.py``) is real:
the session of the tests, and small stateful queries that run in it. A page that builds its own
session runs in a process of its own, on a cluster of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.documentation import (
    GIVEN,
    PAGES,
    ROOT,
    builds_session,
    name_of,
    names_in,
    needs_spark,
    run_examples,
)
from tests.spark.running_query import PATIENCE_S, back_to_two, until

from elastream import Attachment, read_decisions
from elastream.attachment.application import APPLICATIONS
from elastream.foresight import MigrationChain
from elastream.foresight.mtm.problem import ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues, partition_values
from elastream.foresight.values_file import write_values
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import spark_environment
from elastream.spark.sessions.java import java_home
from elastream.spark.sessions.spark_home import spark_home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LIVE = [page for page in PAGES if needs_spark(page)]
OWN_SESSION = [page for page in LIVE if builds_session(page)]
SHARED_SESSION = [page for page in LIVE if page not in OWN_SESSION]
IN_EVERY_RUN = ("README.md",)
NO_CACHE = {"XDG_CACHE_HOME": os.devnull}
"""With it a Spark home goes with the test."""


def counts_of(spark: SparkSession) -> DataFrame:
    """A stream that keeps no one busy, counted by key."""
    from pyspark.sql import functions as f

    numbers = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    return numbers.groupBy((f.col("value") % 10).alias("key")).count()


def started(spark: SparkSession, name: str, checkpoint: Path) -> StreamingQuery:
    query = (
        counts_of(spark)
        .writeStream.format("noop")
        .outputMode("update")
        .queryName(name)
        .trigger(processingTime="500 milliseconds")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    until(lambda: query.lastProgress is not None, f"{name} has run a batch")
    return query


def given(spark: SparkSession, wanted: set[str], folder: Path) -> dict[str, Any]:
    """What examples take as given, with those queries that the page uses; one always runs."""
    made: dict[str, Any] = {"spark": spark, "counts": counts_of(spark)}
    made["checkpoint"] = str(folder / "checkpoint")
    for name in sorted(wanted - made.keys()) or ["query"]:
        made[name] = started(spark, name, folder / name)
    return made


def write_known_values(folder: Path) -> None:
    """The file that the page on transition reads: values for the four tasks of a query."""
    chain = MigrationChain.of(sizes=[2, 3], matrix=[[0, 1], [1, 0]], gamma=0.8)
    values = partition_values(ProjectionProblem.of([1] * 4, [1] * 4, 0.5, chain))
    assert isinstance(values, PartitionValues)
    write_values(folder / "values.parquet", values)


def attachments(names: dict[str, Any]) -> list[Attachment]:
    return [value for value in names.values() if isinstance(value, Attachment)]


def saw_a_batch(attachment: Attachment) -> bool:
    """Whether the attachment knows where tasks are, or was let go by the examples themselves."""
    return bool(attachment.where()) or attachment._application not in APPLICATIONS.values()


FILES: dict[str, Callable[[Path], None]] = {"docs/foresight/transition.md": write_known_values}
"""What must lie in the working folder of a page's examples."""


def in_suite(page: Path) -> object:
    """The page, marked slow unless it is one of those that every run tries."""
    marks = () if name_of(page).startswith(IN_EVERY_RUN) else (pytest.mark.slow,)
    return pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.parametrize("page", [in_suite(page) for page in SHARED_SESSION])
def test_examples_run_on_live_executors(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name_of(page) in FILES:
        FILES[name_of(page)](tmp_path)
    names: dict[str, Any] = {}
    try:
        names |= given(spark, names_in(page) & GIVEN, tmp_path)
        run_examples(page, names)
        until(lambda: all(map(saw_a_batch, attachments(names))), "the loop has seen a batch")
        faults = [query.exception() for query in spark.streams.active]
        assert faults == [None] * len(faults)
    finally:
        for attachment in attachments(names):
            attachment.detach()
        for query in spark.streams.active:
            query.stop()
        back_to_two(SparkInternals.of(spark))


@pytest.mark.slow
@pytest.mark.parametrize("page", OWN_SESSION, ids=name_of)
def test_examples_that_build_a_session_run_as_a_program(page: Path, tmp_path: Path) -> None:
    submitted = "--master local-cluster[1,1,1024] --conf spark.ui.enabled=false pyspark-shell"
    environment = {
        **os.environ,
        **spark_environment(java_home(), spark_home(tmp_path, NO_CACHE)),
        "PYSPARK_SUBMIT_ARGS": submitted,
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts on half the CPU
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    program = [sys.executable, "-m", "tests.documentation", str(page)]
    run = subprocess.run(
        program, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stderr
    assert next(read_decisions(tmp_path / "decisions.jsonl")).kind == "attach"
