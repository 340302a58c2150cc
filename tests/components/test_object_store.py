"""Checkpoint and state on S3, by S3A, on a real S3 server: moves, pauses, restarts and refusals."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.components.parts import FOLDER
from tests.spark.processes import kill
from tests.spark.running_query import BY_HAND, PATIENCE_S, RunningQuery, running, until
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream import Decision, attach
from elastream.model.errors import ProblemError
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, stop
from elastream_lab.stores.installation import installed_store
from elastream_lab.stores.object_store import ObjectStore, object_store
from elastream_lab.stores.requests import read_requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

AHEAD = replace(BY_HAND, movement=replace(BY_HAND.movement, copy_least_bytes=0))
"""Copies the state of every task that moves, however small."""


BEGINS = ("scale-out", "scale-in")
ENDS = ("done", "abandon", "refuse")


@dataclass(frozen=True)
class Stored:
    """A store, and how a session gets to it."""

    store: ObjectStore
    settings: dict[str, str]

    def at(self, name: str) -> tuple[Path, str]:
        return self.store.path(name), self.store.uri(name)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """A store with buckets more: one that may be read alone, one that is given away later."""
    try:
        parts = installed_store(FOLDER)
    except ProblemError as missing:
        pytest.skip(str(missing))
    with object_store(parts, tmp_path_factory.mktemp("s3")) as store:
        guest, host = store.server.add_account("guest"), store.server.add_account("host")
        store.server.add_bucket("foreign", host, reader=guest)
        store.server.add_bucket("given", guest)
        store.server.add_bucket("whole")
        known = {"foreign": guest, "given": guest, "forged": replace(host, secret="not it")}
        settings = {
            f"spark.hadoop.fs.s3a.bucket.{bucket}.{name}.key": value
            for bucket, account in known.items()
            for name, value in (("access", account.access), ("secret", account.secret))
        }
        yield Stored(store, {**store.settings(), **settings})


@contextlib.contextmanager
def cluster(stored: Stored) -> Iterator[SparkSession]:
    """An application with two executors and room for one more."""
    session = embedded(
        EmbeddedCluster(
            executors=2,
            max_executors=3,
            executor_memory_mb=700,
            app_name="elastream on S3",
            config={"spark.sql.shuffle.partitions": "4", **stored.settings},
        ),
        timeout_s=PATIENCE_S,
    )
    try:
        yield session
    finally:
        stop(session)


def exact(run: RunningQuery, location: str) -> bool:
    """Whether the state in the store equals the counts and sums of all rows read."""
    run.query.stop()
    return aggregation_state(run.spark, location) == aggregation_answer(run.committed_rows())


def scaled(run: RunningQuery, executors: int) -> None:
    """Change the number of executors; what moves is the plan's choice, by what tasks cost."""
    known = len(run.decisions)

    def ends() -> list[Decision]:
        decisions = run.decisions[known:]  # may begin with the end of the change before
        since = itertools.dropwhile(lambda each: each.kind not in BEGINS, decisions)
        return [each for each in since if each.kind in ENDS]

    run.attachment.scale_to(executors)
    until(lambda: bool(ends()), "the change has ended")
    (end,) = ends()
    assert end.kind == "done", end.reason
    assert len(run.executor_ids()) == executors


def spread(run: RunningQuery) -> Decision:
    """Have all tasks on one executor, then on all of them; return how that ended."""
    run.settle(dict.fromkeys(run.tasks, run.executor_ids()[0]))
    run.settle_intervals(run.executor_ids())
    return next(each for each in reversed(run.decisions) if each.kind == "done")


def test_state_on_s3_is_placed_moved_paused_and_taken_up_by_another_application(
    stored: Stored,
) -> None:
    path, location = stored.at("counts")
    with cluster(stored) as spark:
        with running(aggregation(spark), mode="update", checkpoint=path, location=location) as run:
            run.settle_intervals(run.executor_ids())
            run.migrate_at_random(3, seed=5)
            scaled(run, 3)
            assert spread(run).figures["tasks_ahead"] == 0
            scaled(run, 2)
            assert exact(run, location)
        with running(
            aggregation(spark), mode="update", policy=AHEAD, checkpoint=path, location=location
        ) as run:
            assert run.committed_rows() > 0
            scaled(run, 3)
            assert spread(run).figures["tasks_ahead"] > 0
            gone = run.executor_ids()[-1]
            kill(spark, gone)
            until(lambda: gone not in run.executor_ids(), "the executor is missed")
            run.pass_batches(3)
            assert exact(run, location)
    before = run.committed_rows()
    with (
        cluster(stored) as spark,
        running(
            aggregation(spark), mode="update", policy=AHEAD, checkpoint=path, location=location
        ) as run,
    ):
        run.migrate_at_random(2, seed=6)
        assert run.committed_rows() > before
        assert exact(run, location)
    left = [place.name for place in path.parent.iterdir() if "elastream" in place.name]
    assert not left, "a warm-up left something behind"
    assert {"PutObject", "GetObject"} <= {
        request.operation for request in read_requests(stored.store.server.log)
    }


def started(spark: SparkSession, location: str) -> StreamingQuery:
    """Start a query with its checkpoint there."""
    writer = aggregation(spark).writeStream.format("noop").outputMode("update")
    writer = writer.queryName("counts").trigger(processingTime="500 milliseconds")
    return writer.option("checkpointLocation", location).start()


def test_what_the_store_refuses_ends_the_query_and_the_loop_lets_go(stored: Stored) -> None:
    decisions: list[Decision] = []
    with cluster(stored) as spark, attach(spark, BY_HAND, log=decisions.append) as attachment:
        for location, why in (
            ("s3a://forged/counts", "403"),
            ("s3a://foreign/counts", "403"),
            ("s3a://nowhere/counts", "bucket does not exist"),
        ):
            with pytest.raises(Exception, match=why):
                started(spark, location).processAllAvailable()
        query = started(spark, "s3a://given/counts")
        until(lambda: len(attachment.where()) == 4, "it is known where its tasks are")
        host = replace(stored.store.server.owner, access="host")
        stored.store.server.give_bucket("given", host)
        until(lambda: not query.isActive, "the query has ended")
        until(lambda: any(each.kind == "leave" for each in decisions), "the loop has let go")
        (leave,) = [each for each in decisions if each.kind == "leave"]
        assert leave.reason.startswith("the query has ended: ")
        assert len(leave.reason.splitlines()) == 1
        assert "AccessDenied" in leave.reason
        assert "Status Code: 403" in str(query.exception())
        again = started(spark, stored.store.uri("again"))
        until(lambda: len(attachment.where()) == 4, "the loop takes part in the next query")
        again.stop()


def replaced(spark: SparkSession, manager: str, location: str) -> None:
    """Write a file, and another in its place, as Spark writes files of a checkpoint."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    files = getattr(managers, manager)(path, spark.sparkContext._jsc.hadoopConfiguration())
    for text in (b"old", b"new"):
        file = files.createAtomic(path, True)
        file.write(bytearray(text))
        file.close()


def test_only_the_file_manager_that_spark_chooses_replaces_a_file_on_s3(stored: Stored) -> None:
    with cluster(stored) as spark:
        for manager, text in (("FileContext", "new"), ("FileSystem", "old")):
            replaced(spark, f"{manager}BasedCheckpointFileManager", stored.store.uri(manager))
            assert stored.store.path(manager).read_text() == text
            stored.store.path(manager).unlink()


def test_a_checkpoint_may_be_all_of_a_bucket(stored: Stored) -> None:
    path = stored.store.server.root / "whole"
    location = "s3a://whole/"
    with (
        cluster(stored) as spark,
        running(aggregation(spark), mode="update", checkpoint=path, location=location) as run,
    ):
        scaled(run, 3)
        assert exact(run, location)
    assert not [place.name for place in path.iterdir() if "elastream" in place.name]
