"""A query is moved with its state: it halts between two batches, and goes on on a copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.handover.spark.expected import pairs
from tests.handover.spark.handing import ALL_MS, START_MS, TOKEN, handover, written

from elastream.handover.carrying import ask_for_checkpoint, carry, taken
from elastream.handover.ledger import RecordFile
from elastream.handover.spark.origin_stream import OriginStream
from elastream.handover.transport import TargetLink
from elastream_lab.applications.readings.json_lines import json_lines
from elastream_lab.applications.readings.queries import joined_readings
from elastream_lab.applications.readings.source import Readings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_a_join_that_halts_when_asked_goes_on_elsewhere_and_puts_out_each_pair_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = Readings(START_MS, 600, gap_ms=40, places=4, clock=str(tmp_path / "clock"))
    query, moved = joined_readings(made, length_ms=800), tmp_path / "b" / "origin"
    with handover(spark, query, tmp_path) as run:
        run.serve()
        run.await_until(lambda: bool(written(tmp_path / "origin-out")))
        streaming = run.origin.streaming
        assert streaming is not None
        run.origin.halt()  # asked for, and given up: the query goes on as before
        assert not streaming.isActive
        assert not run.origin.has_ended
        run.origin.go_on()
        before = run.put_out()
        run.await_until(lambda: run.put_out() > before)
        records = RecordFile(tmp_path / "origin.json")
        link = TargetLink(run.server.address, TOKEN)
        ask_for_checkpoint(link, records, query.shape.name, patience_s=120)
        link.close()
        with taken(records, patience_s=60):
            carried = carry(tmp_path / "origin", moved)
        assert carried.size > 0
        assert [note.kind for note in run.notes] == ["yield"]
        stream = OriginStream(query, json_lines(tmp_path / "target-out"), moved)
        stream.start(spark, trigger_s=0.2)
        try:
            own = written(tmp_path / "origin-out")
            run.pace.go(ALL_MS)
            expected = pairs(made, 800)
            run.origin.streaming = stream.streaming  # it is looked after
            run.await_until(lambda: run.put_out() >= expected.sure, paced=False)
            assert run.put_out() <= expected.possible
            assert own == written(tmp_path / "origin-out")
            assert written(tmp_path / "target-out")
        finally:
            stream.stop()
