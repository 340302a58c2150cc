"""An unmodified program on live executors, from its first session to its exit code."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.launch.programs import by_elastream, by_python, by_submit, written

from elastream import Decision, read_decisions
from elastream.spark.internals.variants import installed_variant

COUNTS = """
import json, sys, time
from pyspark import SparkContext
from pyspark.sql import SparkSession

builder = SparkSession.builder.appName("counts")
spark = builder.config("spark.sql.shuffle.partitions", 4).getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
counts = rows.selectExpr("value % 7 AS key").groupBy("key").count().writeStream
query = counts.outputMode("complete").format("memory").queryName("counts").start()
plain = rows.writeStream.format("noop").queryName("plain").trigger(processingTime="1 hour").start()
while query.lastProgress is None or query.lastProgress.batchId < 2:
    time.sleep(0.1)
query.stop()
plain.stop()


def in_a_worker(_):
    import sys
    from pyspark import SparkContext

    ours = [name for name in sys.modules if name.startswith("elastream")]
    return ours, hasattr(SparkContext.__init__, "__wrapped__")


found = {row["key"]: row["count"] for row in spark.table("counts").collect()}
total = sum(found.values())
expected = {key: len(range(key, total, 7)) for key in range(min(7, total))}
print(json.dumps({
    "exact": total > 0 and found == expected,
    "master": spark.sparkContext.master,
    "name": spark.sparkContext.appName,
    "worker": spark.sparkContext.parallelize([0], 1).map(in_a_worker).collect(),
    "arguments": sys.argv[1:],
}))
spark.stop()
sys.exit(4)
"""
TWO_SESSIONS = """
import sys, time
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession


def counted(spark, name):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    counts = rows.groupBy((rows.value % 7).alias("key")).count().writeStream
    query = counts.outputMode("complete").format("noop").queryName(name).start()
    while query.lastProgress is None or query.lastProgress.batchId < 2:
        time.sleep(0.1)


conf = SparkConf().setAppName("own").setMaster("local[2]").set("spark.speculation", "true")
conf.set("spark.sql.shuffle.partitions", "4")
counted(SparkSession(SparkContext(conf=conf)), "first")
SparkContext._active_spark_context.stop()
counted(SparkSession.builder.getOrCreate(), "second")
raise ValueError("of its own")
"""

LEFT_OPEN = """
import atexit, os, threading
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession


def last():
    if os.getpid() == parent:
        print("last", spark.range(5).count(), flush=True)


parent = os.getpid()
atexit.register(last)
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
rows = spark.readStream.format("rate").load().groupBy("value").count().writeStream
query = rows.outputMode("complete").format("noop").queryName("left").start()
while query.lastProgress is None:
    query.awaitTermination(1)
pool = ThreadPoolExecutor(2)
print(pool.submit(lambda: spark.range(3).count()).result(), flush=True)
child = os.fork()
if not child:
    raise SystemExit(8)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def after():
    threading.main_thread().join()
    print("after", spark.range(4).count(), query.isActive, flush=True)


threading.Thread(target=after).start()
raise ValueError("of its own")
"""

TEN_QUERIES = """
import time
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
counts = rows.groupBy((rows.value % 7).alias("key")).count()
queries = [
    counts.writeStream.outputMode("complete").format("noop").queryName(f"q{number}")
    .trigger(processingTime="1 hour").start()
    for number in range(10)
]
while any(query.lastProgress is None for query in queries):
    time.sleep(0.1)
"""

STEERED = """
import subprocess
from pathlib import Path


def control(*arguments):
    command = [sys.executable, "-m", "elastream.cli.main", "control", sys.argv[2], *arguments]
    ran = subprocess.run(command, capture_output=True, text=True)
    return ran.returncode, (ran.stdout + ran.stderr).strip()


def pass_batches(number):
    before = query.lastProgress["batchId"]
    while query.lastProgress["batchId"] < before + number:
        time.sleep(0.1)


log, deadline = Path(sys.argv[1]), time.monotonic() + 400
while '"done"' not in log.read_text() and time.monotonic() < deadline:
    time.sleep(0.2)
said = [
    control("pause"),
    control("set", "tau=0.5", "max_executors=0"),
    control("set", "tau=0.5"),
    control("status"),
    control("detach"),
]
pass_batches(2)
said.append(control("resume"))
print(json.dumps(said))
"""
"""What a program does that is scaled by a goal and steered from a shell while it runs."""

REPARTITIONED = """
import json, sys, threading, time
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 1).getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
counts = rows.groupBy((rows.value % 7).alias("key")).count()
found = {}


def keep(batch, number):
    found.update({row["key"]: row["count"] for row in batch.collect()})


writer = counts.writeStream.outputMode("update").foreachBatch(keep).queryName("counts")
query = writer.option("checkpointLocation", sys.argv[1]).start()
returned = []


def waits(name, wait):
    wait()
    returned.append(name)


threads = [
    threading.Thread(target=waits, args=("one", query.awaitTermination)),
    threading.Thread(target=waits, args=("any", spark.streams.awaitAnyTermination)),
]
for thread in threads:
    thread.start()
first, seen = query.runId, []
ends = time.monotonic() + 300


def partitions():
    progress = query.lastProgress
    return 0 if progress is None else progress["stateOperators"][0]["numShufflePartitions"]


while (query.runId == first or partitions() < 2) and time.monotonic() < ends:
    seen.append(query.isActive and [each.id for each in spark.streams.active] == [query.id])
    time.sleep(0.05)
time.sleep(1)
running = sorted(returned), query.isActive, query.awaitTermination(0.1)
plain = rows.writeStream.format("noop").queryName("plain").start()
query.stop()
for thread in threads:
    thread.join(60)
total = sum(found.values())
print(json.dumps({
    "other run": query.runId != first,
    "partitions": partitions(),
    "seen": all(seen),
    "running": running,
    "returned": sorted(returned),
    "active": [each.name for each in spark.streams.active],
    "exact": total > 0 and found == {key: len(range(key, total, 7)) for key in range(7)},
}))
spark.stop()
"""


def events_of(log: Path) -> list[tuple[str, str | None]]:
    quiet = ("hold", "wait")
    decisions: list[Decision] = [each for each in read_decisions(log) if each.kind not in quiet]
    return [(each.kind, each.query) for each in decisions]


@dataclass(frozen=True)
class Ran:
    """A program of COUNTS, scaled by a goal of an outside package and steered from a shell."""

    process: subprocess.CompletedProcess[str]
    arguments: list[str]
    decisions: list[Decision]
    left: list[Path]
    """What is left in its scratch folder and of its socket."""


@pytest.fixture(scope="module")
def ran(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("ran")
    log, socket, scratch = folder / "decisions.jsonl", folder / "run.sock", folder / "scratch"
    scratch.mkdir()
    arguments = [str(log), str(socket)]
    process = by_elastream(
        written(folder, COUNTS.replace("query.stop()\n", f"{STEERED}query.stop()\n", 1)),
        *arguments,
        options=f"--goal two --planner in-turn --log {log} --control {socket} --page 0",
        environ={"TMPDIR": str(scratch), "PYTHONPATH": str(site)},
    )
    decisions = [each for each in read_decisions(log) if isinstance(each, Decision)]
    left = [*scratch.glob("elastream-*"), *folder.glob("run.sock")]
    return Ran(process, arguments, decisions, left)


def test_an_unmodified_program_runs_attached_and_ends_as_it_does(ran: Ran) -> None:
    process = ran.process
    assert process.returncode == 4, process.stderr
    assert json.loads(process.stdout.splitlines()[-1]) == {
        "exact": True,
        "master": "local-cluster[2,1,800]",
        "name": "counts",
        "worker": [[[], False]],
        "arguments": ran.arguments,
    }
    assert [line for line in process.stderr.splitlines() if line.startswith("elastream")] == []
    kinds = [(each.kind, each.query) for each in ran.decisions]
    assert kinds[0] == ("attach", None)
    assert ("join", "counts") in kinds
    assert ("refuse", "plain") in kinds
    assert kinds[-1] == ("detach", None)
    assert ran.left == []


def test_a_running_program_is_steered_from_a_shell_and_its_query_runs_on(ran: Ran) -> None:
    assert ran.process.returncode == 4, ran.process.stderr
    codes, (paused, refused, updated, status, detached, late) = zip(
        *json.loads(ran.process.stdout.splitlines()[0]), strict=True
    )
    assert codes == (0, 2, 0, 0, 0, 2)
    assert paused.startswith("paused, asked for by ")
    assert refused == "elastream: max_executors: 0 is too small; the least is 1"
    assert updated.endswith(": tau 0.5 instead of 0.2")
    assert "Held back: paused since " in status
    assert detached.startswith("detached, asked for by ")
    assert late == "elastream: it has let go of the application; the queries run on as they are"
    steered = ("pause", "refuse", "update", "detach")
    kinds = [each.kind for each in ran.decisions if each.query is None and each.kind in steered]
    assert kinds == ["pause", "refuse", "update", "detach"]


def test_a_goal_and_a_planner_of_an_outside_package_scale_a_program(ran: Ran) -> None:
    reasons = {each.kind: each.reason for each in ran.decisions}
    assert reasons["scale-out"] == "scale-out to 2: two are better"
    assert "each executor in turn" in reasons["plan"]
    assert reasons["done"].startswith("scale-out from 1 to 2 executors done: ")


def test_a_program_does_not_notice_that_its_query_gets_more_partitions(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    program = written(tmp_path, REPARTITIONED)
    options = f"--log {log} --min-executors 2 --repartition"
    ran = by_elastream(program, str(tmp_path / "checkpoint"), options=options)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "other run": True,
        "partitions": 2,
        "seen": True,
        "running": [[], True, False],
        "returned": ["any", "one"],
        "active": ["plain"],
        "exact": True,
    }
    paused = [each for each in read_decisions(log) if each.kind == "repartition"]
    assert paused[0].reason.startswith("paused for 2 partitions: ")
    assert [each for each in paused if "failed" in each.figures] == []


@pytest.mark.slow
def test_a_program_that_leaves_everything_open_ends_as_under_python(tmp_path: Path) -> None:
    log, scratch = tmp_path / "decisions.jsonl", tmp_path / "scratch"
    scratch.mkdir()
    program = written(tmp_path, LEFT_OPEN)
    pythons = by_python(program)
    ours = by_elastream(program, options=f"--log {log}", environ={"TMPDIR": str(scratch)})
    assert (ours.returncode, ours.stdout) == (pythons.returncode, pythons.stdout), ours.stderr
    assert ours.stdout.splitlines() == ["3", "child 8", "after 4 True", "last 5"]
    traces = [
        re.findall(r"Traceback (?:.*\n)+?ValueError: of its own\n", ran.stderr)
        for ran in (ours, pythons)
    ]
    assert traces[0] == traces[1] != []
    kinds = events_of(log)
    assert ("join", "left") in kinds
    assert [kind for kind, _ in kinds].count("detach") == 1
    assert list(scratch.glob("elastream-*")) == []


@pytest.mark.slow
def test_a_session_that_is_stopped_in_the_middle_is_let_go_and_the_next_is_attached(
    tmp_path: Path,
) -> None:
    log = tmp_path / "decisions.jsonl"
    ran = by_elastream(written(tmp_path, TWO_SESSIONS), options=f"--log {log} --force")
    assert ran.returncode == 1
    assert "ValueError: of its own" in ran.stderr.splitlines()
    assert "elastream: overridden: spark.speculation is true" in ran.stderr
    kinds = [each for each in events_of(log) if each[0] in ("attach", "join", "detach")]
    assert kinds == [
        ("attach", None),
        ("join", "first"),
        ("detach", None),
        ("attach", None),
        ("join", "second"),
        ("detach", None),
    ]


@pytest.mark.slow
def test_ten_queries_join_one_loop_and_end_with_the_program_that_leaves_them(
    tmp_path: Path,
) -> None:
    log = tmp_path / "decisions.jsonl"
    ran = by_elastream(written(tmp_path, TEN_QUERIES), options=f"--log {log}")
    assert ran.returncode == 0, ran.stderr
    kinds = events_of(log)
    assert [kind for kind, _ in kinds].count("attach") == 1
    joined = sorted(query for kind, query in kinds if kind == "join" and query)
    assert joined == sorted(f"q{number}" for number in range(10))
    assert kinds[-1] == ("detach", None)


@pytest.mark.slow
def test_the_launcher_does_the_same_under_spark_submit(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    ran = by_submit(
        written(tmp_path, COUNTS),
        "an argument",
        submit="--master local-cluster[2,1,800] --conf spark.executor.memory=800m",
        options=f"--log {log}",
    )
    assert ran.returncode == 4, ran.stderr
    said = json.loads(ran.stdout.splitlines()[-1])
    assert (said["exact"], said["worker"]) == (True, [[[], False]])
    assert said["arguments"] == ["an argument"]
    assert ("join", "counts") in events_of(log)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("submit", "says"),
    [
        (
            "--conf spark.speculation=true --master spark://127.0.0.1:1",
            "elastream: spark.speculation is true; ",
        ),
        ("--master local[2]", "elastream: spark.master is local[2], one process without "),
    ],
)
def test_what_spark_submit_sets_against_steering_is_refused(
    submit: str, says: str, tmp_path: Path
) -> None:
    ran = by_submit(written(tmp_path, COUNTS), submit=submit)
    assert ran.returncode == 2
    # spark-submit sends all that a driver in Python says to its own standard output
    assert [line for line in ran.stdout.splitlines() if line.startswith(says)]


@pytest.mark.slow
def test_a_program_is_measured_and_its_queries_end(tmp_path: Path) -> None:
    text = COUNTS.split("while query.lastProgress")[0] + "query.awaitTermination()\nplain.stop()\n"
    program, problem = written(tmp_path, text), tmp_path / "problem.json"
    done = by_elastream(program, options=f"--measure {problem}")
    assert done.returncode == 0, done.stderr
    fields = json.loads(problem.read_text())
    assert fields["graph"]["inputs"] == ["counts"]
    names = [each["name"] for each in fields["graph"]["operators"]]
    assert names == [f"counts/0/{partition}" for partition in range(4)]
    assert len(fields["unplaced"]) == len(fields["capacity"])
    assert f"elastream: {problem}: 4 pairs on " in done.stderr


@pytest.mark.slow
def test_a_program_that_ends_before_it_is_measured_is_one_line(tmp_path: Path) -> None:
    problem = tmp_path / "problem.json"
    text = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n"
    program = written(tmp_path, text + "raise SystemExit('its last words')\n")
    done = by_elastream(program, options=f"--measure {problem}")
    assert done.returncode == 2
    assert "its last words" in done.stderr.splitlines()
    assert not problem.exists()
    line = "elastream: the program ended before its queries were measured"
    assert done.stderr.strip().splitlines()[-1] == line


REAL_TIME = """
import json, sys, time
from collections import Counter
from pathlib import Path
from pyspark.sql import SparkSession, functions as f
from elastream import session_settings
from elastream.demo.timed_lines import TimedLines, TimedRows, read, write
from elastream_lab.mechanisms.executor_processes import executor_process, kill_process

folder = Path(sys.argv[1])
settings = {**session_settings(realtime=True), "spark.sql.shuffle.partitions": "2"}
spark = SparkSession.builder.config(map=settings).getOrCreate()
lines, seen, added = TimedLines(folder / "in", partitions=2), [], Counter()
counts = read(spark, folder / "in").groupBy("value").agg(f.count("*"))
writer = write(counts, folder / "out").queryName("counts").outputMode("update")
writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
query = writer.trigger(realTime="5 seconds").start()
run, rows = query.runId, TimedRows(folder / "out")


def add(number):
    for each in range(number):
        word = f"word{each % 7}"
        lines.add(word, 1000 * time.time())
        added[word] += 1


def counted():
    seen.extend(rows.more())
    found = Counter()
    for row in seen:
        found[row.values[0]] = max(found[row.values[0]], int(row.values[1]))
    return found


def until(there):
    while not there():
        assert query.isActive, query.exception()
        time.sleep(0.2)


add(100)
until(lambda: counted() == added and query.lastProgress is not None)
kill_process(executor_process(spark, "0"))
terminated = query.awaitTermination(10)
add(100)
until(lambda: counted() == added)
print(json.dumps({"terminated": terminated, "again": query.runId != run}))
broken = f.expr("raise_error('the user')")
rows = read(spark, folder / "in").groupBy(broken.alias("value")).agg(f.count("*"))
writer = write(rows, folder / "broken").queryName("broken").outputMode("update")
writer = writer.option("checkpointLocation", str(folder / "other"))
query.stop()
writer.trigger(realTime="5 seconds").start().awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not installed_variant().has_stateful_realtime, reason="Real-time Mode with state needs 4.3"
)
def test_a_real_time_query_is_started_again_unless_the_program_made_it_fail(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    done = by_elastream(written(tmp_path, REAL_TIME), str(tmp_path), options=f"--log {log}")
    assert done.stdout, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said == {"terminated": False, "again": True}, done.stderr
    assert done.returncode == 1
    assert "the user" in done.stderr
    assert {query for kind, query in events_of(log) if kind == "restart"} == {"counts"}
