"""One loop for a whole application: several queries, in whatever session, that come and go."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.processes import kill, of_session
from tests.spark.quiet_files import QuietFiles
from tests.spark.running_query import BY_HAND, PATIENCE_S, back_to_two, committed_rows, until
from tests.spark.streams import (
    LATER,
    aggregation,
    aggregation_answer,
    aggregation_state,
    join,
    numbers,
    totals,
    totals_answer,
    totals_state,
)

from elastream import Attachment, Decision, Movement, Policy, Timeouts, Utilisation, attach
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

GENTLE = replace(BY_HAND, movement=replace(BY_HAND.movement, moves_per_batch=3))


class Application:
    """Queries of a test, by name, each with its checkpoint."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.folder = scratch_folder(spark) / f"application-{time.monotonic_ns()}"
        self.queries: dict[str, StreamingQuery] = {}
        self.decisions: list[Decision] = []

    def start(
        self,
        name: str,
        frame: DataFrame,
        mode: str = "update",
        sink: str = "noop",
        trigger: str = "1 second",
    ) -> StreamingQuery:
        writer = frame.writeStream.format(sink).outputMode(mode).queryName(name)
        writer = writer.option("checkpointLocation", str(self.checkpoint(name)))
        writer = writer.trigger(processingTime=trigger)
        self.queries[name] = writer.start()
        return self.queries[name]

    def checkpoint(self, name: str) -> Path:
        return self.folder / name

    def rows(self, name: str) -> int:
        return committed_rows(self.checkpoint(name))

    def kinds(self, query: str | None = None) -> list[str]:
        return [d.kind for d in self.decisions if query is None or d.query == query]

    def stop(self) -> None:
        for query in self.queries.values():
            query.stop()


@pytest.fixture
def application(spark: SparkSession) -> Iterator[Application]:
    made = Application(spark)
    yield made
    made.stop()
    back_to_two(SparkInternals.of(spark))
    shutil.rmtree(made.folder, ignore_errors=True)


def tasks_of(attachment: Attachment) -> Counter[str]:
    return Counter(task.query for task in attachment.where())


def alive(spark: SparkSession) -> int:
    return len(SparkInternals.of(spark).executors())


def test_three_queries_stay_exact_through_scaling_a_kill_an_end_and_a_restart(
    spark: SparkSession, application: Application
) -> None:
    report = application.decisions
    with attach(spark, GENTLE, log=report.append) as attachment:
        keyed = application.start("keyed", aggregation(spark.newSession()))
        application.start("joined", join(spark), "append", "memory")
        application.start("whole", totals(spark), "complete")
        stateless = numbers(spark).writeStream.format("noop").queryName("stateless")
        stateless = stateless.trigger(processingTime="1 second")
        application.queries["stateless"] = stateless.start()
        everything = {"keyed": 4, "joined": 4, "whole": 1}
        until(lambda: tasks_of(attachment) == everything, "all queries take part")
        assert {query.name for query in attachment.queries} == set(everything)
        until(lambda: "refuse" in application.kinds("stateless"), "the stateless one is left alone")
        attachment.scale_to(3)
        assert attachment.wait(PATIENCE_S)
        assert len(set(attachment.where().values())) == 3
        kill(spark, attachment.executors()[-1].id)
        until(lambda: "lost" in application.kinds(), "the loss is noticed")
        keyed.stop()
        until(lambda: "leave" in application.kinds("keyed"), "it leaves while others report")
        until(lambda: tasks_of(attachment) == {"joined": 4, "whole": 1}, "its tasks are gone")
        application.start("keyed", aggregation(spark))
        until(lambda: tasks_of(attachment) == everything, "it is taken up again")
        until(lambda: len(attachment.executors()) == 3, "the cluster manager has replaced it")
        attachment.scale_to(2)
        assert attachment.wait(PATIENCE_S)
        assert alive(spark) == 2
    last = application.kinds()[-1]
    assert last == "detach"
    joined = application.queries["joined"]
    application.stop()
    rows = application.rows("keyed")
    assert aggregation_state(spark, str(application.checkpoint("keyed"))) == aggregation_answer(
        rows
    )
    found = totals_state(spark, str(application.checkpoint("whole")))
    assert found == totals_answer(application.rows("whole"))
    seen = Counter(row[0] for row in spark.table(joined.name or "").collect())
    assert seen == Counter(range(LATER, max(seen) + 1))


@pytest.mark.slow  # the demo does, tests/core idles
def test_an_overloaded_query_gets_executors_and_gives_them_back_when_all_is_idle(
    spark: SparkSession, application: Application, tmp_path: Path
) -> None:
    from elastream_lab.harness.service_time import slowed

    files = QuietFiles(spark, tmp_path / "in")
    files.feed(200)
    policy = Policy(
        min_executors=0,
        max_executors=3,
        goal=Utilisation(target=0.5, hysteresis=0.1),
        tau=0.3,
        patience=2,
        cooldown_s=1.0,
        timeouts=Timeouts(smoothing_s=2.0, idle_s=2.0, grow_s=PATIENCE_S, action_s=PATIENCE_S),
        movement=Movement(warm_up=False, settle_batches=0),
    )
    with attach(spark, policy, log=application.decisions.append):
        application.start("quiet", files.counts())
        slow = slowed(numbers(spark).repartition("value"), 6000.0, "value")
        busy = application.start("busy", slow.groupBy("value").count())
        until(lambda: alive(spark) == 3, "the overload is met")
        until(lambda: "done" in application.kinds(), "the change is done")
        busy.stop()
        files.feed(100)
        until(lambda: alive(spark) == 0, "an idle application holds no executor")
        files.feed(100)
        until(lambda: alive(spark) >= 1, "a batch that wants to run gets an executor")
        application.queries["quiet"].processAllAvailable()
        assert files.found(application.checkpoint("quiet")) == files.expected()
        until(lambda: alive(spark) == 0, "and it is given back again")
    until(lambda: alive(spark) == 1, "queries that are let go need one")
    wakes = [d for d in application.decisions if "no executor is alive" in d.reason]
    assert [d.kind for d in wakes][:1] == ["scale-out"]
    application.stop()
    rows = application.rows("busy")
    state = spark.read.format("statestore").load(str(application.checkpoint("busy")))
    counts = {row[0]: row[1] for row in state.select("key.value", "value.count").collect()}
    assert counts == dict.fromkeys(range(rows), 1)


def test_an_idle_query_is_drained_at_once_and_verified_by_its_next_batch(
    spark: SparkSession, application: Application, tmp_path: Path
) -> None:
    files = QuietFiles(spark, tmp_path / "in")
    with attach(spark, BY_HAND, log=application.decisions.append) as attachment:
        application.start("quiet", files.counts())
        for _ in range(3):
            files.feed(100)
            application.queries["quiet"].processAllAvailable()
        until(lambda: tasks_of(attachment) == {"quiet": 4}, "its tasks are known")
        until(lambda: attachment.state.queries["quiet"].idle, "it is idle")
        attachment.scale_to(1)
        assert attachment.wait(PATIENCE_S)
        assert alive(spark) == 1
        files.feed(100)
        application.queries["quiet"].processAllAvailable()
        until(lambda: "verify" in application.kinds(), "the first batch verifies the moves")
    reports = [d.reason for d in application.decisions if d.kind == "verify"]
    assert "are where they were asked for in idle time" in reports[0]
    application.stop()
    assert files.found(application.checkpoint("quiet")) == files.expected()


@pytest.mark.slow
def test_queries_that_are_started_again_and_again_leave_nothing_behind(
    spark: SparkSession, application: Application
) -> None:
    def threads() -> int:
        return sum(thread.name.startswith("elastream") for thread in threading.enumerate())

    streams = spark._jsparkSession.streams()
    listeners = len(streams.listListeners())
    before = threads()
    with attach(spark, BY_HAND, log=application.decisions.append) as attachment:
        application.start("steady", aggregation(spark))
        until(lambda: "steady" in tasks_of(attachment), "one reports all the time")
        during = threads()
        for _ in range(3):
            application.decisions.clear()
            query = application.start("restarted", totals(spark), "complete")
            until(lambda: "restarted" in tasks_of(attachment), "the other takes part")
            query.stop()
            until(lambda: "leave" in application.kinds("restarted"), "it has left")
            assert threads() <= during
        assert len(streams.listListeners()) <= listeners + 1
    until(lambda: threads() <= before, "all threads have ended")
    assert len(streams.listListeners()) == listeners


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["Moving", "Copying"])
def test_a_driver_with_two_queries_killed_in_a_migration_loses_nothing(
    spark: SparkSession, application: Application, tmp_path: Path, phase: str
) -> None:
    folder = application.folder
    command = [sys.executable, "-m", "tests.spark.killed_driver", str(folder), phase]
    with (tmp_path / "driver.log").open("w") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        died = driver.wait(4 * PATIENCE_S)
    assert died == -signal.SIGKILL, (tmp_path / "driver.log").read_text()[-2000:]
    until(lambda: not of_session(driver.pid), "its JVM, too, writes no more")
    before = {name: application.rows(name) for name in ("keyed", "whole")}
    application.start("keyed", aggregation(spark))
    application.start("whole", totals(spark), "complete")
    until(
        lambda: all(application.rows(name) > rows for name, rows in before.items()),
        "the queries go on",
    )
    application.stop()
    rows = application.rows("keyed")
    assert aggregation_state(spark, str(folder / "keyed")) == aggregation_answer(rows)
    assert totals_state(spark, str(folder / "whole")) == totals_answer(application.rows("whole"))
