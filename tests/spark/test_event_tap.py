from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.running_query import PATIENCE_S, until

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.event_tap import (
    Added,
    EventTap,
    JobEvent,
    Poll,
    QueryEvent,
    RunningTask,
    TaskEvent,
    TaskTimes,
    Work,
    poll_in,
    work_in,
)
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.task_events import TASK_COUNTERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("run time", "rows", "number of total state rows")
IDS = st.uuids().map(str)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
COUNTERS = st.builds(Added, st.sampled_from(NAMES), st.integers(0, 2**63 - 1), NUMBERS)
MOMENTS = st.integers(0, 2**63 - 1)
EXECUTORS = st.from_regex(r"[0-9a-z-]+", fullmatch=True)
TASKS = st.builds(
    TaskEvent,
    MOMENTS,
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
    EXECUTORS,
    st.booleans(),
    st.builds(TaskTimes, MOMENTS, MOMENTS, MOMENTS),
    st.lists(COUNTERS).map(tuple),
)
RUNNING = st.builds(RunningTask, MOMENTS, st.integers(0, 2**31 - 1), EXECUTORS, MOMENTS, MOMENTS)
JOBS = st.builds(
    JobEvent,
    st.lists(st.integers(0, 2**31 - 1)).map(tuple),
    st.none() | IDS,
    st.none() | st.integers(-1, 2**63 - 1),
    st.booleans(),
)
ENDS = st.none() | st.text(st.characters(exclude_categories=("C", "Z")), min_size=1)
EVENTS = (
    st.builds(lambda i, r: QueryEvent("started", {"id": i, "runId": r}), IDS, IDS)
    | st.builds(
        lambda i, r, why: QueryEvent("terminated", {"id": i, "runId": r, "exception": why}),
        IDS,
        IDS,
        ENDS,
    )
    | st.dictionaries(st.text(), st.text() | NUMBERS).map(lambda d: QueryEvent("progress", d))
)


def task_line(task: TaskEvent) -> str:
    added = " ".join(f"{NAMES.index(name)}:{i}:{value}" for name, i, value in task.added)
    well = int(task.ended_well)
    times = "\t".join(map(str, task.times))
    place = f"{task.id}\t{task.stage}\t{task.partition}\t{task.executor}\t{well}"
    return f"task\t{place}\t{times}\t{added}"


def running_line(task: RunningTask) -> str:
    times = f"{task.launched_ms}\t{task.now_ms}"
    shuffle = "" if task.shuffle is None else task.shuffle
    placed = f"{task.partition}\t{shuffle}"
    return f"running\t{task.id}\t{task.stage}\t{task.executor}\t{times}\t{placed}"


def job_line(job: JobEvent) -> str:
    stages = " ".join(map(str, job.stages))
    batch = "" if job.batch is None else job.batch
    return f"job\t{stages}\t{job.query or ''}\t{batch}\t{'true' if job.own else ''}"


def event_line(event: QueryEvent) -> str:
    if event.kind == "progress":
        return f"progress\t{json.dumps(event.fields)}"
    return "\t".join([event.kind, *(value or "" for value in event.fields.values())])


@settings(max_examples=min(150, settings().max_examples))
@given(st.lists(JOBS), st.lists(TASKS), st.lists(RUNNING), st.randoms())
def test_every_job_and_task_is_read_as_it_was_reported(
    jobs: list[JobEvent], tasks: list[TaskEvent], running: list[RunningTask], random: Any
) -> None:
    lines = [*map(task_line, tasks), *map(running_line, running)]
    for place, job in enumerate(jobs):
        lines.insert(random.randint(place, len(lines)), job_line(job))
    read = work_in("\n".join(lines), NAMES)
    assert set(read.jobs) == set(jobs)
    assert read.tasks == tuple(tasks)
    assert read.running == tuple(running)


@settings(max_examples=min(150, settings().max_examples))
@given(st.dictionaries(IDS, st.booleans()), st.lists(EVENTS), NUMBERS, st.booleans(), NUMBERS)
def test_everything_that_is_waited_for_is_read_as_it_was_reported(
    idle: dict[str, bool], events: list[QueryEvent], jobs: int, changed: bool, dropped: int
) -> None:
    lines = [
        f"{jobs}\t{int(changed)}\t{dropped}",
        *(f"running\t{query}\t{int(flag)}" for query, flag in idle.items()),
        *map(event_line, events),
    ]
    assert poll_in("\n".join(lines)) == Poll(jobs, changed, dropped, idle, tuple(events))


@pytest.mark.parametrize(
    "torn",
    [
        "task\t7\t1\t2",
        "task\t7\t1\t2\t0\t1\t1\t2\t3\t9:1:1",
        "task\t7\t1\t2\t0\t1\t1\t2\t3\t0:1",
        "running\t7\t1",
        "job\tx\t\t\t",
        "",
    ],
)
def test_a_line_of_work_that_cannot_be_read_costs_that_line(
    torn: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = TaskEvent(7, 1, 2, "0", True, TaskTimes(1, 2, 3), ())
    assert work_in(f"{torn}\n{task_line(whole)}", NAMES) == Work((), (whole,))
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize("torn", ["progress\t{", "started\tone", "unreadable\tError", ""])
def test_an_event_of_a_query_that_cannot_be_read_costs_that_event(
    torn: str, caplog: pytest.LogCaptureFixture
) -> None:
    started = QueryEvent("started", {"id": "a", "runId": "b"})
    text = f"0\t0\t0\n{torn}\n{event_line(started)}"
    assert poll_in(text) == Poll(0, False, 0, {}, (started,))
    assert "cannot be read" in caplog.text


def test_no_work_is_no_lines() -> None:
    assert work_in("", NAMES) == Work((), ())


def test_what_no_one_fetches_is_dropped_the_oldest_first_and_counted(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    tap = EventTap(internals, most=4)
    try:
        for partitions in (6, 3):
            spark.sparkContext.parallelize(range(partitions), partitions).count()
        dropped = 0

        def all_heard() -> bool:
            nonlocal dropped
            dropped += tap.wait(0.0).dropped
            return dropped >= 1 + 6 + 1 + 3 - 4

        until(all_heard, "both jobs were heard")
        work = tap.fetch(TASK_COUNTERS)
        assert dropped == 7
        assert [len(job.stages) for job in work.jobs] == [1]
        assert {task.partition for task in work.tasks} == {0, 1, 2}
        assert all(task.ended_well for task in work.tasks)
        assert tap.fetch(TASK_COUNTERS) == Work((), ())
    finally:
        tap.close()


def test_a_spark_that_does_not_compile_the_listener_is_refused_with_the_reason(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "public Object generate(Object[] references) { return new NoSuchListener(); }"
    (tmp_path / "digest.java").write_text(text, "utf-8")
    monkeypatch.setattr("elastream.spark.internals.java_text.files", lambda _: tmp_path)
    monkeypatch.setattr("elastream.spark.internals.java_text._factories", {})
    with pytest.raises(UnsupportedSparkError, match="does not compile") as refused:
        EventTap(SparkInternals.of(spark))
    assert "\n" not in str(refused.value)


def test_whoever_waits_returns_when_the_tap_is_closed(spark: SparkSession) -> None:
    tap = EventTap(SparkInternals.of(spark))
    tap.close()
    assert tap.wait_for_a_loss(PATIENCE_S) is False
    assert tap.wait(PATIENCE_S).events == ()
    tap.close()
