"""What is measured of a driver: memory, threads, listeners, folders."""

from __future__ import annotations

import gc
import resource
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.jsonl import files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured at one moment."""

    stream_h: float
    """Hours of stream time since the start."""
    changes: int
    """Changes that had ended by then."""
    measures: Mapping[str, float]


def of_python(log: Path, scratch: Path) -> dict[str, float]:
    """Measure this process, the decision log and the scratch folder."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "Python RSS, MiB": pages * resource.getpagesize() / _MIB,
        "Python blocks, thousands": sys.getallocatedblocks() / 1000,
        "Python threads": threading.active_count(),
        "log, MiB": sum(file.stat().st_size for file in files_of(log) if file.exists()) / _MIB,
        "scratch files": sum(1 for _ in scratch.rglob("*")),
    }


def of_jvm(spark: SparkSession) -> dict[str, float]:
    """Measure the driver's JVM, after it has collected its garbage."""
    jvm: Any = spark.sparkContext._jvm
    beans = jvm.java.lang.management.ManagementFactory
    for _ in range(2):  # what one collection sets free may need another
        jvm.java.lang.System.gc()
    context: Any = spark.sparkContext._jsc.sc()
    return {
        "JVM heap, MiB": beans.getMemoryMXBean().getHeapMemoryUsage().getUsed() / _MIB,
        "JVM other, MiB": beans.getMemoryMXBean().getNonHeapMemoryUsage().getUsed() / _MIB,
        "JVM threads": beans.getThreadMXBean().getThreadCount(),
        "listeners": context.listenerBus().listeners().size(),
    }
