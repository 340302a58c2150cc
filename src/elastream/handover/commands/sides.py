"""Run one side of a handover as a command: the session, the query, and the protocol thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
from elastream.cli.terminal import say
from elastream.model.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.handover.model import Boundary
    from elastream.handover.spark.origin_stream import OriginStream
    from elastream.handover.spark.target_stream import TargetStream
    from elastream.handover.spark.windowed import WindowedQuery


@dataclass(frozen=True, slots=True)
class SideRun:
    """Settings of one side."""

    windowed: WindowedQuery
    folder: Path
    session: AbstractContextManager[SparkSession]
    stop: threading.Event
    """Ends the protocol."""
    executors: int
    log: Path | None
    """Path of the decision log."""


def run_origin(
    side: SideRun, run: Callable[[OriginStream], object], committed: Boundary | None
) -> None:
    """Run the query that is handed over, until it ends."""
    from elastream.handover.spark.origin_stream import OriginStream

    with ended_like_by_ctrl_c(), java_kept_quiet(), side.session as spark, _logged(side, spark):
        stream = OriginStream(side.windowed, side.windowed.sink, side.folder)
        stream.name = side.windowed.shape.name
        if committed is not None:  # before the first batch, not only once the protocol runs
            stream.stop_after(committed)
        stream.start(spark)
        _with_protocol(side, stream, lambda: run(stream))


def run_target(side: SideRun, run: Callable[[TargetStream], object], since_ms: int | None) -> None:
    """Run the query that takes over, until it is stopped."""
    from elastream.handover.spark.target_stream import TargetStream

    windowed, folder = side.windowed, side.folder
    with ended_like_by_ctrl_c(), java_kept_quiet(), side.session as spark, _logged(side, spark):
        stream = TargetStream(windowed, windowed.sink, folder, spark, since_ms=since_ms)
        stream.name = windowed.shape.name
        _with_protocol(side, stream, lambda: run(stream))


def _logged(side: SideRun, spark: SparkSession) -> AbstractContextManager[object]:
    """Report the Spark version, since the other side may use another one; log the query's load."""
    say(f"Spark {spark.version} on {spark.sparkContext.master}")
    if side.log is None:
        return nullcontext()
    from elastream.attachment.attaching import attach
    from elastream.core.policy import Policy

    policy = Policy(max_executors=side.executors, advise_only=True)
    return attach(spark, policy, log=side.log)


def _with_protocol(
    side: SideRun, stream: OriginStream | TargetStream, act: Callable[[], object]
) -> None:
    """Run the protocol next to the query, until one of them ends."""
    from elastream.spark.observe.endings import ending

    failures: list[BaseException] = []
    ended = None

    def guarded() -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded, name="handover")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.5)
            if stream.has_ended:
                side.stop.set()
    finally:
        side.stop.set()
        thread.join()
        if stream.streaming is not None:  # asked before it is stopped, which may cut a batch short
            ended = stream.streaming.exception()
        stream.stop()
        if stream.late_rows:
            allowed = f"later than the {side.windowed.shape.lateness} ms that the query allows"
            say(f"late: {stream.late_rows} rows came {allowed}, and were dropped")
    if failures:
        raise failures[0]
    if ended is not None:
        raise SparkError(f"the query has ended: {ending(ended)}")
