"""values: what spreading the precompute over Spark's cores is worth, against one process.

The same pool is grown in this process and on ``local[1]`` and ``local[2]``; ``python -m
elastream_lab.benchmarks.values POOL`` takes another size than 2000. Start-up is not counted, and
the outcomes must be the same to the last bit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from elastream.foresight.mtm.growth import GrowthSettings
from elastream.foresight.mtm.runner import Runner
from elastream.foresight.mtm.values import PartitionValues, partition_values
from elastream.foresight.spark_runner import SparkRunner
from elastream.spark.sessions.batch_session import batch_session
from elastream_lab.benchmarks.transition import skewed_problem

TASKS, TAU, POOL = 64, 0.4, 2000


def run(pool: int = POOL) -> None:
    """Print the table."""
    settings = GrowthSettings(pool=pool, rounds=4, rests=5)
    table = Table(title=f"m = {TASKS}, tau = {TAU}, a pool of {pool}, four rounds")
    for column in ("where", "cores", "seconds", "against one process"):
        table.add_column(column, justify="right")
    partition_values(skewed_problem(24, TAU), settings=GrowthSettings(pool=60, rounds=1))
    alone, alone_s = _timed(partial(_valued, settings, None))
    table.add_row("one process", "1", f"{alone_s:.1f}", "1.00")
    for cores in (1, 2):
        with batch_session("elastream benchmark", master=f"local[{cores}]") as spark:
            runner = SparkRunner(spark.sparkContext)
            _valued(GrowthSettings(pool=200, rounds=1), runner)
            spread, spread_s = _timed(partial(_valued, settings, runner))
        assert np.array_equal(alone.values, spread.values)
        ratio = f"{spread_s / alone_s:.2f}"
        table.add_row("Spark", str(cores), f"{spread_s:.1f}", ratio)
    Console().print(table)


def _valued(settings: GrowthSettings, runner: Runner | None) -> PartitionValues:
    values = partition_values(skewed_problem(TASKS, TAU), settings=settings, runner=runner)
    assert isinstance(values, PartitionValues)
    return values


def _timed(what: Callable[[], PartitionValues]) -> tuple[PartitionValues, float]:
    start = time.perf_counter()
    return what(), time.perf_counter() - start


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else POOL)
