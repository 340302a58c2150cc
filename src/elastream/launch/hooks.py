"""Running a program with every stateful query attached: a few methods of PySpark are replaced.

Every classic session stands on a SparkContext. The context's beginning adds settings, the session's
beginning attaches, the context's end detaches before Spark ends, and the two methods of the builder
refuse Spark Connect. How queries start and are waited for is replaced as well, so that they can be
stopped for more partitions (:mod:`elastream.launch.queries`), and those in Real-time Mode started
again when an executor is lost (:mod:`elastream.launch.restarts`). The environment and the path of
modules are left alone, so the Python workers of executors are not affected.

A refusal is one line on standard error, and ends the program by an exception that is no
``Exception``, which a program does not catch by mistake.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from elastream.launch.program import Program, run_program
from elastream.launch.reporting import report
from elastream.launch.session import LaunchedSession
from elastream.launch.settings import RunSettings
from elastream.model.errors import ElastreamError, UnsupportedSparkError
from elastream.spark.internals.variants import installed_variant
from elastream.spark.sessions.interrupts import interrupts_ignored

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


_REFUSED = 2
_BROKEN = 1
_CONNECT = (
    "the program uses Spark Connect, whose client cannot reach the driver that places state: run "
    "it with a classic session, without SPARK_REMOTE, remote(...) and spark.api.mode=connect"
)


class Refused(SystemExit):
    """The program ends here; why is on standard error already."""


def run_attached(program: Program, settings: RunSettings) -> int:
    """Run a program with every stateful query attached; return 0, or raise what ended it."""
    session, hooks = LaunchedSession(settings), ExitStack()
    hooks.enter_context(hooked(session))

    def at_end() -> None:
        hooks.close()
        with interrupts_ignored():
            session.let_go()

    run_program(program, at_end)
    return 0


@contextmanager
def hooked(session: LaunchedSession) -> Iterator[None]:
    """Replace the methods meanwhile; refuse a PySpark that is not version 4."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with _refusing():
        installed_variant()
    builder = SparkSession.Builder
    changes: list[tuple[Any, str, Any]] = [
        (SparkContext, "__init__", _context_begins(session, SparkContext.__init__)),
        (SparkContext, "stop", _context_ends(session, SparkContext.stop)),
        (SparkSession, "__init__", _session_begins(session, SparkSession.__init__)),
        (builder, "getOrCreate", _without_connect(builder.getOrCreate)),
        (builder, "create", _without_connect(builder.create)),
    ]
    with ExitStack() as undo:
        _replace(changes, undo)
        _replace(session.pausable.hooks(), undo)
        _replace(session.healed.hooks(), undo)
        yield


def _replace(changes: list[tuple[Any, str, Any]], undo: ExitStack) -> None:
    """Replace methods of PySpark, until ``undo``; later replacements call the earlier ones."""
    for owner, name, method in changes:
        undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, method)


def _context_begins(session: LaunchedSession, begin: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(begin)

    @functools.wraps(begin)
    def begins(self: SparkContext, *arguments: Any, **named: Any) -> None:
        bound = signature.bind(self, *arguments, **named)
        given = bound.arguments
        if self._active_spark_context is not None or given.get("gateway") is not None:
            begin(*bound.args, **bound.kwargs)  # PySpark refuses it, or elastream itself makes it
            return
        with _refusing():
            given["conf"] = session.prepared(given.get("conf"), given.pop("master", None))
            environment = session.environment()
        with environment:
            begin(*bound.args, **bound.kwargs)
        with _refusing():
            session.begun(self)

    return begins


def _context_ends(session: LaunchedSession, stop: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stop)
    def ends(self: SparkContext) -> None:
        session.let_go()
        stop(self)

    return ends


def _session_begins(session: LaunchedSession, begin: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(begin)

    @functools.wraps(begin)
    def begins(self: SparkSession, *arguments: Any, **named: Any) -> None:
        bound = signature.bind(self, *arguments, **named)
        bound.arguments["options"] = session.options(bound.arguments.get("options", {}))
        begin(*bound.args, **bound.kwargs)
        with _refusing():
            session.attach(self)

    return begins


def _without_connect(build: Callable[[Any], SparkSession]) -> Callable[[Any], SparkSession]:
    @functools.wraps(build)
    def built(self: Any) -> SparkSession:
        with _refusing():
            if is_connect(self._options):
                raise UnsupportedSparkError(_CONNECT)
        return build(self)

    return built


def is_connect(options: Mapping[str, Any]) -> bool:
    """Return whether PySpark would make a client of Spark Connect."""
    from pyspark.util import default_api_mode

    mode = str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
    if mode not in ("classic", "connect"):
        mode = default_api_mode()
    variables = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    is_remote = "spark.remote" in options or any(name in os.environ for name in variables)
    return is_remote or mode == "connect"


@contextmanager
def _refusing() -> Iterator[None]:
    """End the program where it cannot be attached."""
    try:
        yield
    except ElastreamError as error:
        report(str(error))
        raise Refused(_REFUSED) from None
    except Exception as error:
        if os.environ.get("ELASTREAM_DEBUG"):
            raise
        about = f"{type(error).__name__}: {error}".splitlines()[0]
        report(f"a fault of elastream itself: {about} (ELASTREAM_DEBUG=1 shows where)")
        raise Refused(_BROKEN) from None
