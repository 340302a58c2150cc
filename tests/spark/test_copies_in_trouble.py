"""State travels ahead of its task while the store fails, the query restarts, its schema changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.running_query import PATIENCE_S, RunningQuery, running, until
from tests.spark.streams import KEYS, aggregation, aggregation_answer, aggregation_state, numbers
from tests.spark.test_copies import AHEAD, session_with, swap_ahead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

LOADED = replace(AHEAD, movement=replace(AHEAD.movement, copy_source="storage"))


def test_a_copy_that_the_store_refuses_once_is_opened_anew(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update", policy=LOADED) as run:
        first, second = run.executor_ids()
        run.settle(dict.fromkeys(run.tasks, first))
        with unreadable(run.checkpoint):
            run.attachment.move(dict.fromkeys(run.tasks, second))
            until(lambda: any(why_not(run, second)), "opening a copy has failed")
        assert run.attachment.wait(PATIENCE_S)
        assert set(run.where().values()) == {second}, str([d.reason for d in run.decisions[-6:]])
        swap_ahead(run)
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())


def why_not(run: RunningQuery, executor: str) -> list[str]:
    """What the executor's keeper says of copies that could not be opened."""
    copies = run.attachment._application.copies
    assert copies is not None
    report = copies._keepers.read(executor)
    return [] if report is None else [copy.why for copy in report.copies.values()]


@contextmanager
def unreadable(checkpoint: Path) -> Iterator[None]:
    """Hide the state that was written so far; what is written meanwhile is there."""
    hidden = []
    for file in (checkpoint / "state").rglob("*.*"):
        if file.suffix in (".zip", ".changelog") and not file.name.startswith("."):
            aside = file.with_name(f".{file.name}.hidden")
            file.rename(aside)
            hidden.append((aside, file))
    assert hidden
    try:
        yield
    finally:
        for aside, file in hidden:
            aside.rename(file)


@pytest.mark.parametrize("phase", ["Copying", "Moving"])
def test_a_query_that_is_restarted_while_state_travels_stays_exact(
    spark: SparkSession, phase: str
) -> None:
    with running(aggregation(spark), mode="update", policy=AHEAD) as run:
        first, second = run.executor_ids()
        run.settle(dict.fromkeys(run.tasks, first))
        run.attachment.move(dict.fromkeys(run.tasks, second))
        until(lambda: type(run.attachment.state.phase).__name__ == phase, f"it is {phase}")
        run.query.stop()
    with running(aggregation(spark), mode="update", policy=AHEAD, checkpoint=run.checkpoint) as run:
        swap_ahead(run)
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())


@pytest.mark.parametrize("change", ["a variable more", "a field more"])
def test_state_of_another_shape_after_a_restart_travels_too(
    spark: SparkSession, change: str
) -> None:
    encoding = "avro" if change == "a field more" else "unsaferow"
    with session_with(spark, stateStore__encodingFormat=encoding) as own:
        with running(counts(own), mode="update", policy=AHEAD) as run:
            swap_ahead(run)
        after = counts(own, **{change.split()[1]: True})
        with running(after, mode="update", policy=AHEAD, checkpoint=run.checkpoint) as run:
            swap_ahead(run)
            run.pass_batches(1)
            swap_ahead(run)
        reader = own.read.format("statestore").option("stateVarName", "seen")
        rows = reader.load(str(run.checkpoint)).select("key", "value").collect()
    found = {row["key"][0]: row["value"][0] for row in rows}
    answer = aggregation_answer(run.committed_rows())
    assert found == {key: n for key, (n, _) in answer.items()}


def counts(spark: SparkSession, *, variable: bool = False, field: bool = False) -> DataFrame:
    """Count rows per key; perhaps with a state variable, or a field of one, more than before."""
    import pandas as pd
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Counts(StatefulProcessor):  # inside, so that it is sent to the workers by value
        def init(self, handle: StatefulProcessorHandle) -> None:
            schema = "n BIGINT, last BIGINT" if field else "n BIGINT"
            self.seen = handle.getValueState("seen", schema)
            self.last = handle.getValueState("last", "value BIGINT") if variable else None

        def handleInputRows(  # noqa: N802 - Spark's name
            self,
            key: Any,
            rows: Iterator[Any],
            timerValues: Any,  # noqa: ARG002, N803
        ) -> Iterator[Any]:
            seen = self.seen.get()
            n, last = (seen[0] if seen is not None else 0), 0
            for frame in rows:
                n, last = n + len(frame), int(frame["value"].max())
            self.seen.update((n, last) if field else (n,))
            if self.last is not None:
                self.last.update((last,))
            yield pd.DataFrame({"key": [key[0]], "n": [n]})

        def close(self) -> None:
            pass

    return (
        numbers(spark)
        .withColumn("key", f.col("value") % KEYS)
        .groupBy("key")
        .transformWithStateInPandas(Counts(), "key BIGINT, n BIGINT", "Update", "none")
    )
