"""Streams from a real Kafka through Spark's connector: lag, faults, and input that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.components.application import CATCH_UP_S
from tests.components.broker import Broker, broker, free_ports
from tests.components.parts import missing
from tests.components.programs import Application, Program, Stream, application, committed, outside
from tests.spark.running_query import until

from elastream import Utilisation

pytestmark = pytest.mark.skipif(
    missing("kafka-broker", "kafka-connector") is not None,
    reason=str(missing("kafka-broker", "kafka-connector")),
)

TOPICS = {"orders": 3, "payments": 2}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Broker]:
    with broker(tmp_path / "broker") as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, kafka: Broker) -> Iterator[Program]:
    with outside(tmp_path, kafka.servers) as program:
        program.ask("make", topics={**TOPICS, "counts": 2})
        yield program


def counting(app: Application, kafka: Broker, checkpoint: Path, limit: int, trigger: str) -> None:
    app.ask(
        "start",
        name="counting",
        sink="kafka",
        out="counts",
        checkpoint=str(checkpoint),
        trigger=trigger,
        servers=kafka.servers,
        topics=list(TOPICS),
        limit=limit,
    )


def read(checkpoint: Path) -> int:
    return sum(sum(topic.values()) for topic in committed(checkpoint).values())


def batches_later(app: Application, number: int) -> Callable[[], bool]:
    wanted = len(app.batches) + number
    return lambda: len(app.batches) >= wanted


def assert_exact(app: Application, world: Program, stream: Stream, checkpoint: Path) -> None:
    """All rows were read, and state and output are what a batch read of the same offsets says."""
    stream.stop()
    rows = world.ask("rows", topics=list(TOPICS))
    until(lambda: read(checkpoint) == rows, "every row is read")
    app.ask("stop", name="counting")
    right = world.ask("counted", offsets=committed(checkpoint))
    assert sum(n for n, _ in right.values()) == rows >= stream.sent
    assert world.ask("state", checkpoint=str(checkpoint)) == right
    report = world.ask("told", topic="counts")
    assert {key: max([n, total] for of, n, total in report if of == key) for key in right} == right


def test_lag_scales_out_before_utilisation_shows_it_is_caught_up_with_and_scales_in(
    tmp_path: Path, kafka: Broker, world: Program
) -> None:
    checkpoint = tmp_path / "checkpoint"
    goal = Utilisation(catch_up_s=CATCH_UP_S)
    with (
        application(tmp_path / "app", executors=1, policy="by lag") as app,
        Stream(world, list(TOPICS), rows_per_s=80) as stream,
    ):
        counting(app, kafka, checkpoint, limit=5000, trigger="5 seconds")
        until(lambda: quiet(app), "it is quiet on one executor")
        assert all(batch["backlog"] is not None for batch in app.batches)
        before = len(app.decisions)
        stream.burst(40_000)
        until(lambda: "done" in kinds(app, before), "it has scaled out")
        until(lambda: kinds(app, before).count("done") > 1, "it has scaled in")
        decisions = app.decisions[before:]
        out, grown, scale_in = (
            next(decision for decision in decisions if decision.kind == kind)
            for kind in ("scale-out", "done", "scale-in")
        )
        assert out.utilisation is not None
        assert out.figures["backlog"] > 5000
        assert out.utilisation / out.figures["demand"] < goal.high_mark < out.utilisation
        assert (out.executors, grown.executors) == (1, 3)
        assert out.at_ms is not None
        assert grown.at_ms is not None
        assert scale_in.at_ms is not None
        # an executor may go before nothing waits: what stays has to catch up in time
        assert scale_in.figures["backlog"] < out.figures["backlog"]
        assert scale_in.figures["needed"] < grown.executors
        until(lambda: quiet(app), "it is quiet on one executor again")
        later = [batch for batch in app.batches if batch["at_ms"] > out.at_ms]
        caught_up = next(batch["at_ms"] for batch in later if batch["backlog"] < 1000)
        print(
            f"lag: {out.reason}; {grown.executors} executors were there after "
            f"{(grown.at_ms - out.at_ms) / 1000:.0f} s, and nothing waited "
            f"{(caught_up - out.at_ms) / 1000:.0f} s after the decision, of {CATCH_UP_S:g} s"
        )
        assert_exact(app, world, stream, checkpoint)


def quiet(app: Application) -> bool:
    """Whether it was left on one executor three times in a row, and nothing else was wanted."""
    return len(app.batches) > 5 and all(
        decision.kind == "hold" and decision.executors == 1 and "wanted" not in decision.reason
        for decision in app.decisions[-3:]
    )


def kinds(app: Application, since: int) -> list[str]:
    return [decision.kind for decision in app.decisions[since:]]


def test_counts_stay_exact_through_moves_and_dying_executors_brokers_and_drivers(
    tmp_path: Path, kafka: Broker, world: Program
) -> None:
    checkpoint = tmp_path / "checkpoint"
    with Stream(world, list(TOPICS), rows_per_s=50) as stream:
        with application(tmp_path / "app") as app:
            counting(app, kafka, checkpoint, limit=600, trigger="1 second")
            until(lambda: sum(app.ask("where").values()) == 6, "its tasks are seen")
            stream.burst(2_000)
            assert app.ask("scale", executors=3)
            assert app.ask("shuffle")
            lost = app.ask("kill")
            until(lambda: lost not in app.ask("where"), "its tasks run elsewhere")
            until(batches_later(app, 2), "it goes on")
            kafka.kill()
            kafka.start()
            until(batches_later(app, 3), "it goes on with the broker")
            assert app.ask("shuffle")
            stream.burst(2_000)
            app.kill()
        with application(tmp_path / "again") as app:
            counting(app, kafka, checkpoint, limit=600, trigger="1 second")
            until(lambda: sum(app.ask("where").values()) == 6, "its tasks are seen again")
            assert app.ask("shuffle")
            assert_exact(app, world, stream, checkpoint)


def test_a_topic_that_is_not_there_and_brokers_that_refuse_are_the_querys_own_failure_and_one_line(
    tmp_path: Path, kafka: Broker, world: Program
) -> None:
    def start(name: str, servers: str, topics: list[str]) -> None:
        checkpoint = str(tmp_path / name)
        source = {"servers": servers, "topics": topics, "limit": 600, "impatient": True}
        app.ask("start", name=name, sink="kafka", out="counts", checkpoint=checkpoint, **source)

    def ended(name: str) -> bool:
        return not app.ask("status", name=name)["runs"]

    def lines(name: str) -> list[str]:
        kinds = ("refuse", "leave")
        return [decision.reason for decision in app.decided(*kinds) if decision.query == name]

    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with application(tmp_path / "app") as app:
        start("nowhere", kafka.servers, ["nowhere"])
        start("nobody", nobody, list(TOPICS))
        world.ask("send", topics=list(TOPICS), first=0, rows=500)
        start("cut", kafka.servers, list(TOPICS))
        for name in ("nowhere", "nobody"):
            until(lambda name=name: ended(name), f"{name} has failed")  # type: ignore[misc]
            until(lambda name=name: bool(lines(name)), f"{name} is logged")  # type: ignore[misc]
            (line,) = lines(name)
            fault = app.ask("status", name=name)["fault"]
            assert fault
            assert line.startswith("left alone: it failed before its first batch: ")
            assert len(line.splitlines()) == 1
            print(name, "|", fault, "|", line)
        until(lambda: bool(app.decided("join")), "the good one takes part")
        until(lambda: bool(app.batches), "the good one runs")
        kafka.kill()
        until(lambda: ended("cut"), "the query has failed")
        until(lambda: bool(lines("cut")), "that is logged")
        (line,) = lines("cut")
        assert line.startswith("the query has ended: ")
        print("cut |", line)
        assert app.end() == 0
