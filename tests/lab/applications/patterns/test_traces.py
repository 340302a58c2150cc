from __future__ import annotations

import bz2
import gzip
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from elastream.foresight.commands.trace import seconds_of
from elastream.foresight.traces.folder import prepare, read_manifest, read_tasks, read_totals
from elastream.model.errors import ProblemError
from elastream_lab.applications.patterns.building import TraceReport, build_trace
from elastream_lab.applications.patterns.records import partition_hash, task_of
from elastream_lab.applications.patterns.settings import TraceSettings
from elastream_lab.studies.migration_cost.load import length_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2020, 3, 1, tzinfo=UTC)
TASKS = 5


def posts(count: int = 200, hours: int = 12) -> list[dict[str, Any]]:
    random = np.random.default_rng(7)
    words = [f"word{number}" for number in range(30)] + ["café", "naïve"]
    made = []
    for _ in range(count):
        when = START + timedelta(seconds=int(random.integers(0, hours * 3600)))
        text = " ".join(random.choice(words, random.integers(1, 5)))
        made.append({"time": when.isoformat(), "text": text.capitalize()})
    made += [{"time": START.isoformat(), "text": "…!"}]  # a row without a word is not a bad row
    made += [{"time": (START + timedelta(hours=hours)).isoformat(), "text": "the end"}]
    return made


def write_json(path: Path, rows: list[dict[str, Any]]) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        file.write(text)
    return str(path)


def settings_of(*paths: str, **changes: Any) -> TraceSettings:
    fields: dict[str, Any] = {"input": paths, "time": "time", "text": "text", "tasks": TASKS}
    if "key" in changes:
        del fields["text"]
    return TraceSettings(**fields | changes)


def partitions_of(spark: SparkSession, keys: list[str]) -> dict[str, int]:
    """Return the state partition that Spark's own shuffle gives each key."""
    from pyspark.sql import functions as f

    table = spark.createDataFrame([(key,) for key in keys], "key string")
    spread = table.repartition(TASKS, "key").withColumn("task", f.spark_partition_id())
    return {row["key"]: row["task"] for row in spread.collect()}


def keys_of(text: str, patterns: int | None) -> list[str]:
    words = [word for word in text.lower().split() if word != "…!"]
    if patterns is None:
        return words
    lengths = range(1, patterns + 1)
    return [" ".join(c) for n in lengths for c in combinations(sorted(set(words)), n)]


def expected(
    rows: list[dict[str, Any]], task: dict[str, int], window: int | None, patterns: int | None
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], tuple[int, int]]]:
    """Return work, and keys and bytes held, of each interval and task; counted one by one."""
    work: dict[tuple[int, int], int] = defaultdict(int)
    held: dict[tuple[int, int], tuple[int, int]] = {}
    last: dict[str, int] = {}
    by_hour: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        hour = int((datetime.fromisoformat(row["time"]) - START).total_seconds() // 3600)
        by_hour[hour] += keys_of(row["text"], patterns)
    for hour in range(max(by_hour) + 1):
        for key in by_hour[hour]:
            work[hour, task[key]] += 1
            last[key] = hour
            if patterns and window:
                work[hour + window, task[key]] += 1
        for number in range(TASKS):
            keys = [
                key
                for key, seen in last.items()
                if task[key] == number and (window is None or seen > hour - window)
            ]
            held[hour, number] = len(keys), sum(len(key.encode()) + 8 for key in keys)
    return work, held


@pytest.mark.parametrize(
    ("window", "patterns"),
    [
        (None, None),
        pytest.param(1, None, marks=pytest.mark.slow),
        pytest.param(3, None, marks=pytest.mark.slow),
        pytest.param(None, 3, marks=pytest.mark.slow),
        (3, 2),
    ],
)
def test_work_and_state_are_what_counting_one_by_one_gives(
    spark: SparkSession, tmp_path: Path, window: int | None, patterns: int | None
) -> None:
    rows = posts()
    keys = sorted({key for row in rows for key in keys_of(row["text"], patterns)})
    settings = settings_of(
        write_json(tmp_path / "a.jsonl", rows[:50]),
        write_json(tmp_path / "b.jsonl.gz", rows[50:]),
        window_s=None if window is None else window * 3600,
        patterns=patterns,
    )
    report = build_trace(spark, settings, tmp_path / "trace")
    work, held = expected(rows, partitions_of(spark, keys), window, patterns)
    trace = read_tasks(tmp_path / "trace")
    assert report.rows == len(rows)
    assert report.bad_rows == {}
    assert trace.work.shape == (13, TASKS)
    for hour in range(13):
        for task in range(TASKS):
            assert trace.work[hour, task] == work[hour, task]
            assert (trace.keys[hour, task], trace.state_bytes[hour, task]) == held[hour, task]
    totals = read_totals(tmp_path / "trace")
    assert sum(totals) == len(rows)
    came = sum(len(keys_of(row["text"], patterns)) for row in rows)
    assert sum(read_totals(tmp_path / "trace", "records")) == came == report.records


@pytest.mark.slow
def test_a_key_of_any_type_goes_where_spark_shuffles_it(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    table = spark.range(200).select(
        f.col("id"), f.col("id").cast("string").alias("text"), f.col("id").cast("int").alias("n")
    )
    for name in ("id", "text", "n"):
        spread = table.repartition(7, name).withColumn("shuffled", f.spark_partition_id())
        wrong = spread.where(task_of(partition_hash(f.col(name)), 7) != f.col("shuffled"))
        assert wrong.count() == 0


@pytest.mark.slow
def test_csv_and_parquet_read_alike_whatever_the_form_of_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    times = [START + timedelta(minutes=40 * step) for step in range(6)]
    texts = ['one "two"', "two\nthree", "four, five", "one", "two", "three"]
    quoted = [f'"{text.replace(chr(34), chr(34) * 2)}"' for text in texts]
    lines = [f"{time.isoformat()},{text}" for time, text in zip(times, quoted, strict=True)]
    with bz2.open(tmp_path / "posts.csv.bz2", "wt") as file:
        file.write("time,text\n" + "\n".join(lines) + "\n")
    table = pa.table({"time": [int(time.timestamp() * 1000) for time in times], "text": texts})
    parquet.write_table(table, tmp_path / "millis.parquet")
    stamps = pa.array(times, pa.timestamp("us", "UTC"))
    parquet.write_table(pa.table({"time": stamps, "text": texts}), tmp_path / "stamps.parquet")
    found = []
    for name in ("posts.csv.bz2", "millis.parquet", "stamps.parquet"):
        build_trace(spark, settings_of(str(tmp_path / name)), tmp_path / "trace", overwrite=True)
        trace = read_tasks(tmp_path / "trace")
        found.append((trace.work.tolist(), trace.state_bytes.tolist()))
    assert found[0] == found[1] == found[2]
    assert sum(map(sum, found[0][0])) == 9


def bad_posts() -> list[dict[str, Any]]:
    bad: list[dict[str, Any]] = [
        {"time": "not a time", "text": "x"},
        {"time": None, "text": "x"},
        {"time": START.isoformat(), "text": "  "},
        {"time": START.isoformat()},
    ]
    return posts(96) + bad


def test_bad_rows_are_counted_by_their_fault(spark: SparkSession, tmp_path: Path) -> None:
    rows = bad_posts()
    path = write_json(tmp_path / "posts.json", rows)
    with Path(path).open("a") as file:
        file.write("{this is not JSON}\n")
    report = build_trace(spark, settings_of(path, max_bad_share=0.2), tmp_path / "trace")
    assert report.rows == len(rows) + 1
    assert report.bad_rows == {"text": 2, "time": 3}
    assert read_manifest(tmp_path / "trace")["report"]["bad_rows"] == report.bad_rows


@pytest.mark.slow
def test_too_many_bad_rows_are_an_error_and_leave_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write_json(tmp_path / "posts.json", bad_posts())
    with pytest.raises(ProblemError, match="of 102 rows 2 without a text, 2 without a time that"):
        build_trace(spark, settings_of(path), tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


@pytest.mark.slow
def test_a_stray_time_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    rows = [*posts(10), {"time": "0002-01-01T00:00:00Z", "text": "once upon a time"}]
    path = write_json(tmp_path / "posts.json", rows)
    with pytest.raises(ProblemError, match="is a time wrong"):
        build_trace(spark, settings_of(path), tmp_path / "trace")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"time": "when"}, "time: there is no column 'when'; there are text, time"),
        ({"text": "body"}, "text: there is no column 'body'"),
        ({"key": "who"}, "key: there is no column 'who'"),
        ({"format": "parquet"}, "input: cannot be read"),
    ],
)
def test_wrong_columns_are_named(
    spark: SparkSession, tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    path = write_json(tmp_path / "posts.json", posts(5))
    with pytest.raises(ProblemError, match=line):
        build_trace(spark, settings_of(path, **changes), tmp_path / "trace")


@pytest.mark.slow
def test_a_file_that_is_cut_short_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    path = Path(write_json(tmp_path / "posts.json.gz", posts(400)))
    path.write_bytes(path.read_bytes()[:-900])
    with pytest.raises(ProblemError, match=r"^input: cannot be read: [^\n]*$"):
        build_trace(spark, settings_of(str(path)), tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


@pytest.mark.slow
def test_a_trace_is_kept_unless_it_may_be_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    settings = settings_of(write_json(tmp_path / "posts.json", posts(20)), key="text")
    first = build_trace(spark, settings, tmp_path / "trace")
    assert isinstance(first, TraceReport)
    with pytest.raises(ProblemError, match="holds a trace already"):
        build_trace(spark, settings, tmp_path / "trace")
    bad = settings_of(write_json(tmp_path / "bad.json", bad_posts()))
    with pytest.raises(ProblemError, match="without a text"):
        build_trace(spark, bad, tmp_path / "trace", overwrite=True)
    assert read_manifest(tmp_path / "trace")["report"]["rows"] == first.rows
    assert build_trace(spark, settings, tmp_path / "trace", overwrite=True) == first
    (tmp_path / "trace" / "manifest.json").unlink()  # as a killed run leaves it
    with pytest.raises(ProblemError, match="not finished"):
        read_totals(tmp_path / "trace")
    assert build_trace(spark, settings, tmp_path / "trace") == first


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"input": ()}, "input: names no file"),
        ({"input": ("nowhere.csv",)}, "nowhere.csv does not exist"),
        ({"text": None}, "give either `text` or `key`"),
        ({"tasks": 0}, "tasks: 0 is too small"),
        ({"patterns": 0}, "patterns: 0 is too small"),
        ({"patterns": 9}, "patterns: 9 is too large"),
        ({"text": None, "key": "who", "patterns": 2}, "patterns: needs `text`"),
        ({"max_bad_share": 2}, "max_bad_share: 2 is above 1"),
        ({"window_s": 5000}, "window_s: is not a whole number of intervals"),
    ],
)
def test_wrong_settings_are_named_before_spark_starts(changes: dict[str, Any], line: str) -> None:
    fields: dict[str, Any] = {"input": ("x*.csv",), "time": "time", "text": "text"}
    with pytest.raises(ProblemError, match=line):
        TraceSettings(**fields | changes)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ProblemError, match=r"holds thesis\.txt, which is not part of a trace"):
        prepare(tmp_path, overwrite=True)
    with pytest.raises(ProblemError, match="is a file; name a folder"):
        prepare(tmp_path / "thesis.txt", overwrite=True)
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.parametrize("text", ["", "1", "h", "0h", "1.5h", "-1h", "1w"])
def test_a_length_of_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ProblemError, match="is not a length of time"):
        seconds_of("--every", text)


def test_a_format_that_the_name_does_not_tell_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "posts.txt").touch()
    settings = settings_of(str(tmp_path / "posts.txt"))
    with pytest.raises(ProblemError, match="say what it is with `format`"):
        assert settings.kind


@pytest.mark.parametrize("text", ["90s", "15m", "1h", "36h", "2d"])
def test_a_length_of_time_is_reported_as_it_is_read(text: str) -> None:
    assert length_of(seconds_of("--every", text)) == text
