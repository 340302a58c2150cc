"""traces: what reading an input of any size costs the driver, and what the executors.

A CSV file of posts is made, of 16 MB unless ``python -m elastream_lab.benchmarks.traces MB`` says
otherwise: words by Zipf's law, and in each post one that no other has, so that there are as many
keys as posts. The trace of its words is built on two executors with a driver of 500 MB, the least
that Spark takes. The driver's heap and its process are looked at in the end, at their peak.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded_session
from elastream_lab.applications.patterns.building import build_trace
from elastream_lab.applications.patterns.settings import TraceSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALL_MB = 16
DRIVER_MB, EXECUTOR_MB = 500, 900
WORDS_A_POST = 30
_VOCABULARY = 50_000
_TEXTS = 20_000
_MONTH_S = 30 * 24 * 3600
_CLUSTER = EmbeddedCluster(
    executors=2,
    max_executors=2,
    driver_memory_mb=DRIVER_MB,
    executor_memory_mb=EXECUTOR_MB,
    config={"spark.sql.shuffle.partitions": "64", "spark.locality.wait": "0"},
)


def run(megabytes: int = SMALL_MB) -> None:
    """Print the table."""
    table = Table(title=f"traces: two executors of {EXECUTOR_MB} MB, a driver of {DRIVER_MB} MB")
    for column in ("input MB", "rows", "records", "seconds", "heap peak MB", "process peak MB"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder, embedded_session(_CLUSTER) as spark:
        posts = Path(folder) / "posts.csv"
        size = _write(posts, megabytes * 1_000_000)
        settings = TraceSettings(input=(str(posts),), time="time", text="text", max_bad_share=0.0)
        start = time.perf_counter()
        report = build_trace(spark, settings, Path(folder) / "trace")
        taken = time.perf_counter() - start
        heap, process = _peaks_mb(spark)
    table.add_row(
        f"{size / 1e6:,.0f}",
        f"{report.rows:,}",
        f"{report.records:,}",
        f"{taken:.0f}",
        f"{heap:.0f}",
        f"{process:.0f}",
    )
    Console().print(table)


def _write(path: Path, size_bytes: int) -> int:
    """Write posts until the file has that size; return its size."""
    with path.open("w") as file:
        file.write("time,text\n")
        for line in _posts(size_bytes):
            file.write(line)
    return path.stat().st_size


def _posts(size_bytes: int) -> Iterator[str]:
    random = np.random.default_rng(1)
    ranks = random.zipf(1.3, (_TEXTS, WORDS_A_POST)) % _VOCABULARY
    texts = [" ".join(f"word{rank}" for rank in row) for row in ranks.tolist()]
    posts = size_bytes // (sum(map(len, texts)) // _TEXTS + 22)
    step = _MONTH_S / posts
    for number in range(posts):
        yield f"{1_583_020_800 + int(number * step)},{texts[number % _TEXTS]} own{number:x}\n"


def _peaks_mb(spark: SparkSession) -> tuple[float, float]:
    """Return the most that the driver's heap and its process have taken."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = sum(
        pool.getPeakUsage().getUsed() for pool in pools if str(pool.getType()) == "Heap memory"
    )
    pid = jvm.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{pid}/status").read_text()
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return heap / 1e6, int(peak_kb) * 1024 / 1e6


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else SMALL_MB)
