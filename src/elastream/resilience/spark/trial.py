"""A trial run of a user's program: its queries are measured, then stopped.

The program runs unchanged, in a session that could be managed. Once it has stateful queries and
starts no more, they are observed for some batches wherever their state is. The costs of their tasks
are written as a problem of resilient placement. Then the queries are stopped at a batch boundary,
and the program continues, usually to its end.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.atomic_io import write_json
from elastream.launch.hooks import hooked
from elastream.launch.program import Program, run_to_end
from elastream.launch.reporting import report
from elastream.launch.session import LaunchedSession
from elastream.launch.settings import RunSettings
from elastream.model.checks import count
from elastream.model.errors import ElastreamError
from elastream.spark.sessions.interrupts import interrupts_ignored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_LOOK_S: Final = 0.5
_SETTLED_S: Final = 5.0
"""If no further query starts for this long, the program has started all it has."""
_STOP_S: Final = 60.0
_JOIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ProgramTrial:
    """What to measure; validated when created."""

    out: Path
    """The problem file to write."""
    batches: int = 20
    """Number of batches of each query."""
    lower_bound: bool = False
    """Whether the lowest measured rates are the lower bound."""
    timeout_s: float = 3600.0
    """For the measurement."""

    def __post_init__(self) -> None:
        count("batches", self.batches, least=1, most=1000)


def measure_program(program: Program, settings: RunSettings, out: Path) -> int:
    """Run the program until it is measured, and write the problem to a file."""
    return run_measured(program, settings, ProgramTrial(out))


def run_measured(program: Program, settings: RunSettings, trial: ProgramTrial) -> int:
    """Run the program until it is measured; return 0 if the problem was written, else 2."""
    session, hooks = _MeasuredSession(settings, trial), ExitStack()
    hooks.enter_context(hooked(session))

    def at_end() -> None:
        hooks.close()
        with interrupts_ignored():
            session.let_go()

    run_to_end(program, at_end)
    if session.line is None:
        session.line = "the program ended before its queries were measured"
    if not session.written:
        report(session.line)
    return 0 if session.written else 2


class _MeasuredSession(LaunchedSession):
    """Session of a program whose queries are measured, not managed."""

    def __init__(self, settings: RunSettings, trial: ProgramTrial) -> None:
        super().__init__(settings)
        self._trial = trial
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.written = False
        self.line: str | None = None
        """Why nothing was written."""

    def attach(self, spark: SparkSession) -> None:
        """Measure the application, once."""
        self._await_executors(spark)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._measure, args=(spark,), name="elastream-trial", daemon=True
            )
            self._thread.start()

    def let_go(self) -> None:
        """Stop waiting for queries."""
        self._closing.set()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)

    def _measure(self, spark: SparkSession) -> None:
        try:
            queries = self._queries(spark)
            if not queries:
                return
            names = ", ".join(query.name or str(query.id) for query in queries)
            batches = self._trial.batches
            report(f"measuring {batches} batches of {names}")
            self._write(queries)
            for query in queries:
                self._stop(query)
        except ElastreamError as error:
            self._give_up(spark, str(error))
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self._give_up(spark, f"the program's queries cannot be measured: {first}")

    def _write(self, queries: list[StreamingQuery]) -> None:
        from elastream.resilience.spark.measure import measure

        trial = self._trial
        measured = measure(queries, batches=trial.batches, timeout_s=trial.timeout_s)
        write_json(trial.out, measured.fields(lower_bound=trial.lower_bound), indent=1)
        self.written = True
        rates = ", ".join(
            f"{stream} {rate:.0f}/s"
            for stream, rate in zip(measured.graph.inputs, measured.rates, strict=True)
        )
        pairs, nodes = len(measured.graph.operators), len(measured.capacity)
        line = f"{trial.out}: {pairs} pairs on {nodes} executors; rows seen: {rates}"
        report(line)

    def _queries(self, spark: SparkSession) -> list[StreamingQuery]:
        """Return the program's stateful queries once it starts no more; none if it ends."""
        from elastream.spark.internals.spark_internals import SparkInternals

        internals = SparkInternals.of(spark)
        known: frozenset[str] = frozenset()
        since = time.monotonic()
        while not self._closing.wait(_LOOK_S):
            running = {each.id: each for each in internals.queries.active()}
            if running.keys() != known:
                known, since = frozenset(running), time.monotonic()
            stateful = [each for each in running.values() if internals.queries.is_stateful(each)]
            if stateful and time.monotonic() - since >= _SETTLED_S:
                queries = [internals.queries.streaming_query(each) for each in stateful]
                return [query for query in queries if query is not None]
        return []

    def _stop(self, query: StreamingQuery) -> None:
        from elastream.spark.internals.graceful_stop import stop_gracefully

        if query.isActive:
            stop_gracefully(query, timeout_s=_STOP_S)

    def _give_up(self, spark: SparkSession, line: str) -> None:
        """Report the reason and let the program end: stop what was started for the trial."""
        if self._closing.is_set():
            return
        self.line = line
        for query in spark.streams.active:
            query.stop()
