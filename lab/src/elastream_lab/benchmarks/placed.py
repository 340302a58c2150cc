"""What a place of its own costs work without state.

The same made lines are parsed and filtered in three ways: as Spark does it, after a shuffle, and in
a stage that is ``placed``. The second shows what of the third is the shuffle. Batches follow
each other without a pause; reported are, as medians of several runs, what a row took on the clock
and in CPU time of the whole application, which is one process with two threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from elastream import placed
from elastream.handover.spark.application_session import application_session
from elastream_lab.benchmarks._row_costs import BATCHES, RowCost, row_cost
from elastream_lab.studies.machine import machine_times, report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


PARTITIONS: Final = 4
SIZES: Final = (1_000, 20_000, 200_000)
"""Rows a batch."""
ROUNDS: Final = 5
"""How often each way is measured, in turn; a round before them warms Java up and is not counted."""


def run() -> None:
    """Print what a row costs in each way, by the size of a batch."""
    table = Table(title=f"{BATCHES} batches, {PARTITIONS} partitions")
    for name in ("rows a batch", "way"):
        table.add_column(name)
    for name in ("batch, median ms", "µs a row", "CPU µs a row"):
        table.add_column(name, justify="right")
    began = machine_times()
    with application_session(master="local[2]", partitions=PARTITIONS) as spark:
        for rows in SIZES:
            costs: dict[str, list[RowCost]] = {way: [] for way in _WAYS}
            for _ in range(1 + ROUNDS):
                for way, through in _WAYS.items():
                    costs[way].append(row_cost(partial(_parsing, spark, rows, through), rows))
            for way, (_, *counted) in costs.items():
                table.add_row(f"{rows:,}", way, *RowCost.middle(counted).cells())
    console = Console(width=100)
    console.print(table)
    console.print(report(began, machine_times()) or f"load: {os.getloadavg()[1]:.1f}")


@contextmanager
def _parsing(
    spark: SparkSession, rows: int, through: Callable[[DataFrame], DataFrame], folder: Path
) -> Iterator[StreamingQuery]:
    from pyspark.sql import functions as f

    read = f.from_json("line", "id LONG, host STRING, port INT")
    parsed = through(_lines(spark, rows)).select(read.alias("read")).select("read.*")
    kept = parsed.where(f.col("port") != 53)
    writer = kept.writeStream.format("noop").outputMode("append")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        yield query
    finally:
        query.stop()


def _lines(spark: SparkSession, rows: int) -> DataFrame:
    from pyspark.sql import functions as f

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    number = f.col("value")
    host = f.concat_ws(".", f.lit("10.0"), number % 251, number % 241)
    port = f.when(number % 5 == 0, 53).otherwise(443)
    line = f.to_json(f.struct(number.alias("id"), host.alias("host"), port.alias("port")))
    return source.option("numPartitions", PARTITIONS).load().select(line.alias("line"))


def _as_it_is(rows: DataFrame) -> DataFrame:
    return rows


def _shuffled(rows: DataFrame) -> DataFrame:
    return rows.repartition(PARTITIONS, "line")


_WAYS: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "as it is": _as_it_is,
    "after a shuffle": _shuffled,
    "placed": placed,
}
