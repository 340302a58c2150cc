"""Where the results of a query are written: any sink that uses the batch's number.

A batch that Spark runs again has the same number and the same results. A sink that replaces, or
recognises, what that number wrote has every result once. The number counts the batches of one
checkpoint, so the writer (:class:`Writer`) is part of the key: another checkpoint starts at 0
again, and a sink that used the number alone would mistake its batches for old ones.

Results are written by the executors; none of them passes through the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.handover.ledger import Side

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


Sink = Callable[["DataFrame", int], None]
"""Writes the results of a batch; the same batch may come again and replaces what it wrote."""


@dataclass(frozen=True, slots=True)
class Writer:
    """One side of a handover, on one checkpoint."""

    side: Side
    checkpoint: str
    """Spark's id of the checkpoint, different for each."""
    folder: Path
    """The side's folder for state that must survive a crash."""


SinkOf = Callable[[Writer], Sink]
"""Makes the sink of a side. The target's may be the same place as the origin's or another."""


def files_sink(folder: str | Path | None = None, *, format: str = "json") -> SinkOf:  # noqa: A002 - Spark's word
    """Write a folder ``side=…/checkpoint=…/batch=…`` for each batch, in a format of Spark's.

    Read the folder as a whole and the three are columns. Without a folder: ``results`` in the
    side's own.
    """

    def sink_of(writer: Writer) -> Sink:
        base = str(writer.folder.absolute() / "results" if folder is None else folder)
        place = f"{base}/side={writer.side}/checkpoint={writer.checkpoint}"

        def write(results: DataFrame, number: int) -> None:
            results.write.mode("overwrite").format(format).save(f"{place}/batch={number}")

        return write

    return sink_of


def delta_sink(path: str | Path) -> SinkOf:
    """Append to a Delta table, exactly once: the table records who wrote which batch."""

    def sink_of(writer: Writer) -> Sink:
        def write(results: DataFrame, number: int) -> None:
            appended = results.write.mode("append").format("delta")
            who = {"txnAppId": f"elastream-{writer.checkpoint}", "txnVersion": str(number)}
            appended.options(**who).save(str(path))

        return write

    return sink_of


def kafka_sink(servers: str, topic: str, *, key: str | None = None, **options: str) -> SinkOf:
    """Write each result as JSON to a topic, **at least** once: a batch run again is written again.

    Spark's connector has no transactions. Checkpoint and batch are headers of each record, by which
    a reader can recognise a batch that it has seen. ``key`` is a column; ``options`` are Kafka's,
    each with the prefix ``kafka.``.
    """

    def sink_of(writer: Writer) -> Sink:
        def write(results: DataFrame, number: int) -> None:
            from pyspark.sql import functions as f

            def header(name: str, value: str) -> Column:
                return f.struct(
                    f.lit(name).alias("key"), f.lit(value).cast("binary").alias("value")
                )

            headers = f.array(
                header("elastream-checkpoint", writer.checkpoint),
                header("elastream-batch", str(number)),
            )
            columns = [f.to_json(f.struct("*")).alias("value"), headers.alias("headers")]
            if key is not None:
                columns.append(f.col(key).cast("string").alias("key"))
            written = results.select(*columns).write.format("kafka").option("topic", topic)
            written.option("kafka.bootstrap.servers", servers).options(**options).save()

        return write

    return sink_of
