"""Two applications on the same topics hand a query over; its results go to Kafka or Delta."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.components.broker import Broker, broker
from tests.components.handed_topics import LENGTH_MS, SETTINGS, SLIDE_MS
from tests.components.parts import missing, spark_jars
from tests.components.programs import Program, Stream, outside
from tests.components.sparks import DELTA_SETTINGS, DELTA_SPARK, environment
from tests.handover.spark.applications import Applications

WANTED = ("kafka-broker", "kafka-connector", "delta")
pytestmark = pytest.mark.skipif(missing(*WANTED) is not None, reason=str(missing(*WANTED)))

TOPICS = {"orders": 3, "payments": 2}
OUT = "sums"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Broker]:
    with broker(tmp_path / "broker") as made:
        yield made


@pytest.mark.parametrize(
    ("sink", "behind"), [("kafka", True), ("delta", False)], ids=["kafka", "delta"]
)
def test_two_applications_on_the_same_topics_put_out_what_a_batch_computes(
    tmp_path: Path, kafka: Broker, sink: str, behind: bool
) -> None:
    """The target starts by timestamp behind the origin, or where the topics are now."""
    spark = DELTA_SPARK if sink == "delta" else None
    place = {"topic": OUT} if sink == "kafka" else {"table": str(tmp_path / "table")}
    parts = ["kafka-connector", *(["delta"] if spark else [])]
    given = {"servers": kafka.servers, "topics": list(TOPICS), **place}
    run = Applications(
        tmp_path,
        "tests.components.handed_topics:sums",
        settings={**spark_jars(*parts), **(DELTA_SETTINGS if spark else {})},
        environment={**environment(spark), SETTINGS: json.dumps(given)},
    )
    with outside(tmp_path, kafka.servers, spark=spark) as world:
        world.ask("make", topics={**TOPICS, OUT: 2})
        try:
            with Stream(world, list(TOPICS), rows_per_s=40) as stream:
                hand_over(run, world, place, behind)
                stream.stop()
        finally:
            run.close()
        assert_exact(run, world, place)


def hand_over(run: Applications, world: Program, place: dict[str, str], behind: bool) -> None:
    began_ms = time.time_ns() // 1_000_000

    def newest() -> int:
        if "table" in place and not list(Path(place["table"]).glob("_delta_log/*.json")):
            return 0
        return max((row[0] for row in world.ask("put_out", **place)), default=0)

    origin = run.serve()
    run.await_until(lambda: newest() > began_ms, paced=False)
    run.join(*(["--since", str(began_ms)] if behind else []))
    run.await_until(lambda: "finish" in run.kinds("origin"), paced=False)
    assert origin.wait(300) == 0
    boundary = run.notes("origin")[-1].boundary
    assert boundary is not None
    if behind:  # the target saw all of the windows that the origin had yet to put out
        seen = [note for note in run.notes("origin") if note.kind == "offer"][-1].boundary
        assert seen == boundary
        assert boundary.activation > began_ms
    run.await_until(lambda: newest() > boundary.activation + 2 * LENGTH_MS, paced=False)


def assert_exact(run: Applications, world: Program, place: dict[str, str]) -> None:
    """Each window but the last, which may be half written when the target is ended, is there."""
    put_out = counted(world.ask("put_out", **place))
    last = max(row[0] for row in put_out)
    length, slide = LENGTH_MS, SLIDE_MS
    right = counted(world.ask("windows", topics=list(TOPICS), length_ms=length, slide_ms=slide))
    ours = Counter({row: n for row, n in put_out.items() if row[0] < last})
    assert ours == Counter({row: n for row, n in right.items() if row[0] < last})
    boundary = run.notes("target")[-1].boundary
    assert boundary is not None
    starts = sorted({row[0] for row in ours})
    assert starts[0] < boundary.activation <= starts[-1]


def counted(rows: list[list[Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in rows)
