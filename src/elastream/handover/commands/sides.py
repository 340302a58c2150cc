"""One side of a handover as a command: its query, the session, and the protocol thread."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.cli.quiet import ended_like_by_ctrl_c, java_kept_quiet
from elastream.cli.terminal import say
from elastream.extras import what_to_install
from elastream.model.checks import abbreviate
from elastream.model.errors import ElastreamError, ProblemError, SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.handover.model import Boundary
    from elastream.handover.spark.origin_stream import OriginStream
    from elastream.handover.spark.target_stream import TargetStream
    from elastream.handover.spark.windowed import WindowedQuery


def query_named(name: str) -> WindowedQuery:
    """Return the query that a function ``module:function`` returns.

    A module in the current folder is found, both here and by the Python of executors on this
    machine.
    """
    from elastream.handover.spark.windowed import WindowedQuery

    module, _, function = name.partition(":")
    if not module or not function:
        raise ProblemError("QUERY", f"{abbreviate(name)} is not module:function")
    here = str(Path.cwd())
    if not sys.flags.safe_path and here not in sys.path:
        sys.path.insert(0, here)
        paths = (here, os.environ.get("PYTHONPATH", ""))
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    try:
        query = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ImportError) and what_to_install(error):
            raise
        raise ProblemError("QUERY", f"{abbreviate(name)} cannot be found: {error}") from None
    except ElastreamError as error:
        raise ProblemError("QUERY", f"{abbreviate(name)}: {error}") from None
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ProblemError("QUERY", f"{abbreviate(name)} fails: {why}") from error
    if not isinstance(query, WindowedQuery):
        raise ProblemError(
            "QUERY", f"{abbreviate(name)} gives {abbreviate(query)}, not a WindowedQuery"
        )
    return query


def ms_of(since: str) -> int:
    """Return a time in milliseconds since the epoch."""
    if since.isascii() and since.isdigit():
        return int(since)
    try:
        at = datetime.fromisoformat(since)
    except ValueError:
        why = f"{abbreviate(since)} is neither ISO 8601 nor milliseconds since the epoch"
        raise ProblemError("since", why) from None
    return int(at.timestamp() * 1000)


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
