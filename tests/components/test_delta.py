"""Exactly once into a Delta table, from a real Kafka, with compaction running next to it.

Delta's newest connector is made for a Spark before the product's: these run on that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.components.broker import Broker, broker
from tests.components.parts import missing
from tests.components.programs import Application, Program, Stream, application, committed, outside
from tests.components.sparks import DELTA_SPARK
from tests.spark.running_query import until

pytestmark = pytest.mark.skipif(
    missing("kafka-broker", "kafka-connector", "delta") is not None,
    reason=str(missing("kafka-broker", "kafka-connector", "delta")),
)

TOPICS = {"orders": 3, "payments": 2}
TWICE = 1_000


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Broker]:
    with broker(tmp_path / "broker") as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, kafka: Broker) -> Iterator[Program]:
    with outside(tmp_path, kafka.servers, spark=DELTA_SPARK) as program:
        program.ask("make", topics=TOPICS)
        yield program


def test_every_value_is_in_the_table_once_through_faults_and_compaction(
    tmp_path: Path, kafka: Broker, world: Program
) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

    def begin(app: Application) -> None:
        source = {"servers": kafka.servers, "topics": list(TOPICS), "limit": 600}
        places = {"out": str(table), "checkpoint": str(checkpoint)}
        app.ask("start", name="first", sink="delta", **places, **source)
        until(lambda: sum(app.ask("where").values()) == 6, "its tasks are seen")
        app.ask("compact", path=str(table))

    def read() -> int:
        return sum(sum(topic.values()) for topic in committed(checkpoint).values())

    def go_on(app: Application) -> None:
        wanted = len(app.batches) + 3
        until(lambda: len(app.batches) >= wanted, "it goes on")

    with Stream(world, list(TOPICS), rows_per_s=50) as stream:
        with application(tmp_path / "app", spark=DELTA_SPARK) as app:
            begin(app)
            stream.burst(1_500)
            stream.again(TWICE)
            assert app.ask("scale", executors=3)
            assert app.ask("shuffle")
            lost = app.ask("kill")
            until(lambda: lost not in app.ask("where"), "its tasks run elsewhere")
            go_on(app)
            kafka.kill()
            kafka.start()
            go_on(app)
            assert app.ask("shuffle")
            stream.burst(2_000)
            app.kill()
        with application(tmp_path / "again", spark=DELTA_SPARK) as app:
            begin(app)
            assert app.ask("shuffle")
            stream.stop()
            rows = world.ask("rows", topics=list(TOPICS))
            until(lambda: read() == rows, "every row is read")
            app.ask("stop", name="first")
            rows, values = world.ask("values", offsets=committed(checkpoint))
            assert rows >= values + TWICE
            assert values == stream.sent
            in_table, distinct, compactions = world.ask("table", path=str(table))
            assert (in_table, distinct) == (values, values)
            assert compactions > 0
