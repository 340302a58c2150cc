"""The queries of a scenario, running in the application's process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from elastream_lab.campaign.folders import Folders
from elastream_lab.campaign.scenario import Query, Scenario

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


AGAIN_S: Final = 0.5
TRIGGER: Final = "200 milliseconds"


class Queries:
    """The queries, started again where they fail."""

    def __init__(
        self, spark: SparkSession, scenario: Scenario, folders: Folders, tell: Callable[..., None]
    ) -> None:
        self._spark = spark
        self._scenario = scenario
        self._folders = folders
        self._tell = tell
        self.running: dict[str, StreamingQuery] = {}
        self.started = 0
        """How often one was started."""

    def start_all(self) -> None:
        """Start those that do not run; one that cannot be started is tried again later."""
        for query in self._scenario.queries:
            before = self.running.get(query.name)
            if before is not None:
                if before.isActive:
                    continue
                self._tell(failed=query.name, why=str(before.exception())[:400])
                time.sleep(AGAIN_S)
            self.started += 1
            try:
                self.running[query.name] = self._start(query)
            except Exception as error:
                self._tell(failed=query.name, why=f"not started: {str(error)[:400]}")
                time.sleep(AGAIN_S)

    def finished(self) -> bool:
        """Return whether all have answered all there is, and run.

        A query whose batches never end has: it is asked to finish once its rows are committed.
        """
        from elastream_lab.campaign.shapes import SHAPES

        try:
            for query in self._scenario.queries:
                if query.name in self.running and not SHAPES[query.shape].endless:
                    self.running[query.name].processAllAvailable()
        except Exception as error:
            self._tell(said=f"not finished: {str(error)[:200]}")
            return False
        return len(self.running) == len(self._scenario.queries)

    def _start(self, query: Query) -> StreamingQuery:
        from elastream_lab.campaign.shapes import SHAPES

        shape = SHAPES[query.shape]
        return (
            shape.build(self._source)
            .writeStream.queryName(query.name)
            .outputMode(shape.mode)
            .foreachBatch(self._sink(query.name))
            .option("checkpointLocation", str(self._folders.checkpoint(query.name)))
            .trigger(processingTime=TRIGGER)
            .start()
        )

    def _source(self) -> DataFrame:
        from pyspark.sql import functions as f

        from elastream_lab.campaign.shapes import SCHEMA

        reader = self._spark.readStream.schema(SCHEMA)
        reader = reader.option("maxFilesPerTrigger", self._scenario.files_per_batch)
        rows = reader.json(str(self._folders.source))
        return rows.withColumn("time", f.timestamp_seconds("at"))

    def _sink(self, name: str) -> Callable[[DataFrame, int], None]:
        """Return what writes a batch as one whole file, again where the batch runs again."""
        from elastream.atomic_io import write_json

        output, failing = self._folders.output(name), self._folders.failing(name)
        output.mkdir(parents=True, exist_ok=True)

        def write(rows: DataFrame, batch: int) -> None:
            reported = [list(row) for row in rows.collect()]
            if failing.exists():
                failing.unlink()
                raise RuntimeError(f"{name} was asked to fail in batch {batch}")
            write_json(output / f"{batch:08d}.json", reported)

        return write
