"""``measure``: a trial run tells what each pair costs, as a problem of resilient placement.

Section 7.1 of paper 003 measures costs and selectivities by running the operators for a while,
wherever they are. Here over a number of batches, for every (query, operator, partition) pair:

* **cost** is executor run time in seconds, all that the pair's tasks did, for each row of the
  streams that its operator reads: a pair gets only its share of these rows, but whatever it does
  grows with their rate. What Spark's tasks cost without any row is spread over the rows too.
* **selectivity** is rows put out, again for each row of the streams that the operator reads. An
  operator that reads another one's output reads all of its partitions.

So the graph of the problem has an operator for each pair, and a node for each executor. A node's
capacity is the seconds a second that its cores have, less what they spent on tasks without state
(reading, parsing, sinks): nobody can place those. Rates are in rows a second.

Streams are the inputs of queries. Several queries may read the same one. A query that reads two
streams, or joins one with itself, is refused: its load is not a sum over its inputs, and a graph
with a join, written by hand, is the way (``docs/plan-files.md``).
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from elastream.model.checks import count
from elastream.model.errors import ProblemError, QueryRefusedError, SparkError
from elastream.model.observation import BatchObservation, TaskId
from elastream.model.resilience.graph import GraphOperator, QueryGraph
from elastream.model.resilience.problem import ResilientProblem

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.door.private_door import PrivateDoor
    from elastream.spark.door.queries import StatefulOperator
    from elastream.spark.observe.watched_query import WatchedQuery
    from elastream.spark.observe.watching import Watching

__all__ = ["Measured", "measure"]

_LOOK_S: Final = 0.5
_LEAST_CAPACITY: Final = 0.1
"""However much an executor does besides, so much of its cores counts as free."""
_JOIN_STORE: Final = "left-"
"""How the state stores of a stream-stream join begin."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a trial run found out."""

    graph: QueryGraph
    """An operator for each pair, in the order in which ``place`` wants them."""
    capacity: tuple[float, ...]
    """Seconds of run time a second that each executor has: its cores, less other work."""
    rates: tuple[float, ...]
    """Rows a second that each input had in the trial."""

    def fields(self) -> dict[str, Any]:
        """Return the problem as ``elastream plan resilient`` reads it."""
        operators = [
            {
                "name": operator.name,
                "inputs": list(operator.inputs),
                "cost": operator.cost,
                "selectivity": operator.selectivity,
            }
            for operator in self.graph.operators
        ]
        graph = {"inputs": list(self.graph.inputs), "operators": operators}
        return {"graph": graph, "capacity": list(self.capacity)}

    def problem(self) -> ResilientProblem:
        """Return the problem as the planner takes it."""
        from elastream.planners.resilient.load_model import linear_load

        return linear_load(self.graph).problem(self.capacity)


def measure(
    queries: Sequence[StreamingQuery],
    inputs: Sequence[str] | None = None,
    *,
    batches: int = 20,
    skip: int = 2,
    timeout_s: float = 600.0,
    heard: Callable[[str, BatchObservation], None] | None = None,
) -> Measured:
    """Watch running queries for some batches and return what their pairs cost.

    ``inputs`` names the stream that each query reads; queries that read the same one have the same
    name there. Left out, every query reads a stream of its own, named after it. The first ``skip``
    batches of each query, in which code is compiled, count nothing. ``heard`` is called with every
    batch and the name of its query.

    Raises :class:`~elastream.model.errors.ElastreamError` with one line where that cannot be
    measured, or a query runs fewer batches within ``timeout_s``. The queries run on.
    """
    from elastream.spark.observe.watching import batches_of, watching

    count("batches", batches, least=1)
    count("skip", skip)
    if inputs is not None and len(inputs) != len(queries):
        raise ProblemError("inputs", f"has {len(inputs)} names; there are {len(queries)} queries")
    with watching(queries) as running:
        for query, watched in zip(running.queries, running.watched, strict=True):
            _refuse_joins(query, watched)
        trials = {
            watched.name: _Trial(query, watched, batches, skip)
            for query, watched in zip(running.queries, running.watched, strict=True)
        }

        def note(batch: BatchObservation) -> None:
            trials[batch.query].note(batch)
            if heard is not None:
                heard(batch.query, batch)

        batches_of(running.monitor, note)
        _await(list(trials.values()), time.monotonic() + timeout_s, timeout_s)
        streams = list(trials) if inputs is None else list(inputs)
        readings = [_reading(running.door, trial) for trial in trials.values()]
        return _measured(running, streams, readings)


class _Trial:
    """The batches of one query."""

    def __init__(
        self, query: StreamingQuery, watched: WatchedQuery, batches: int, skip: int
    ) -> None:
        self.query = query
        self.watched = watched
        self.batches = batches
        self._skip = skip
        self._seen: list[BatchObservation] = []
        self._changed = threading.Condition()

    def seen(self) -> list[BatchObservation]:
        """Return the batches that count, as many as are needed or less."""
        with self._changed:
            return self._seen[self._skip : self._skip + self.batches]

    def wait(self, timeout_s: float) -> bool:
        """Wait until enough batches were seen; ``False`` where the time ran out before."""
        needed = self._skip + self.batches
        with self._changed:
            return self._changed.wait_for(lambda: len(self._seen) >= needed, timeout_s)

    def note(self, batch: BatchObservation) -> None:
        """Take a batch in; the trial begins with the first that has rows."""
        if batch.rows == 0 and not self._seen:
            return
        with self._changed:
            self._seen.append(batch)
            self._changed.notify_all()


def _await(trials: Sequence[_Trial], deadline: float, timeout_s: float) -> None:
    for trial in trials:
        while not trial.wait(_LOOK_S):
            name = trial.watched.name
            if not trial.query.isActive:
                raise QueryRefusedError(f"the query {name} stopped while it was measured")
            if time.monotonic() > deadline:
                raise SparkError(
                    f"the query {name} ran {len(trial.seen())} of {trial.batches} batches within "
                    f"{timeout_s:g} s; give it more input, or measure fewer"
                )


@dataclass(frozen=True, slots=True)
class _Reading:
    """The sums over the batches of one query."""

    rows: float
    """Rows that it read."""
    seconds: float
    """From the end of the batch before the first to the end of the last."""
    run_s: Mapping[TaskId, float]
    rows_out: Mapping[TaskId, int | None]
    """``None`` where the operator does not tell."""
    outside_s: Mapping[str, float]
    """Run time of the query's tasks without state, by executor."""


def _reading(door: PrivateDoor, trial: _Trial) -> _Reading:
    _refuse_joins(trial.query, trial.watched)
    name, batches = trial.watched.name, trial.seen()
    run_s: dict[TaskId, float] = defaultdict(float)
    rows_out: dict[TaskId, int | None] = {}
    for task in (task for batch in batches for task in batch.tasks):
        run_s[task.task] += task.run_ms / 1000
        before = rows_out.get(task.task, 0)
        told = before is not None and task.rows_out is not None
        rows_out[task.task] = (before or 0) + (task.rows_out or 0) if told else None
    rows = sum(batch.rows for batch in batches) / max(1, door.queries.scans(trial.watched.query))
    if rows == 0:
        raise SparkError(f"the query {name} read no rows in {len(batches)} batches")
    lost = [task for task in trial.watched.tasks if task not in run_s]
    if lost:
        raise SparkError(f"the query {name} told nothing of its task {lost[0]}")
    seconds = sum(batch.interval_ms or batch.duration_ms for batch in batches) / 1000
    outside_s: dict[str, float] = defaultdict(float)
    for batch in batches:
        for executor, run_ms in batch.outside_ms.items():
            outside_s[executor] += run_ms / 1000
    return _Reading(rows, seconds, run_s, rows_out, outside_s)


def _refuse_joins(query: StreamingQuery, watched: WatchedQuery) -> None:
    progress = query.lastProgress
    sources = 1 if progress is None else len(progress["sources"])
    joins = any(
        store.startswith(_JOIN_STORE) for operator in watched.operators for store in operator.stores
    )
    if sources > 1 or joins:
        what = f"reads {sources} sources" if sources > 1 else "joins its stream with itself"
        raise QueryRefusedError(
            f"the query {watched.name} {what}, so its load is no sum over inputs; write its "
            "graph by hand"
        )


def _measured(running: Watching, streams: Sequence[str], readings: Sequence[_Reading]) -> Measured:
    operators = [
        operator
        for watched, stream, reading in zip(running.watched, streams, readings, strict=True)
        for operator in _operators(watched, stream, reading)
    ]
    inputs = tuple(dict.fromkeys(streams))
    rates = {
        stream: reading.rows / reading.seconds
        for stream, reading in zip(streams, readings, strict=True)
    }
    return Measured(
        QueryGraph.of(inputs, operators),
        tuple(
            max(_LEAST_CAPACITY * executor.cores, executor.cores - _outside(readings, executor.id))
            for executor in running.door.executors()
        ),
        tuple(rates[stream] for stream in inputs),
    )


def _outside(readings: Sequence[_Reading], executor: str) -> float:
    """Return the cores that work without state keeps busy on an executor."""
    return sum(each.outside_s.get(executor, 0.0) / each.seconds for each in readings)


def _operators(query: WatchedQuery, stream: str, reading: _Reading) -> list[GraphOperator]:
    read_by = _read_by(query.operators)
    tasks = query.tasks
    found = []
    for task in tasks:
        sources = [other for other in tasks if other.operator in read_by[task.operator]]
        names = [str(other) for other in sources] or [stream]
        rows = sum(reading.rows_out[other] or 0 for other in sources) if sources else reading.rows
        if rows == 0:
            raise SparkError(
                f"operator {task.operator} of the query {query.name} was not seen to read any "
                "rows; measure more batches"
            )
        put_out = reading.rows_out[task]
        selectivity = None if put_out is None else put_out / rows
        found.append(GraphOperator.of(str(task), names, reading.run_s[task] / rows, selectivity))
    return found


def _read_by(operators: Sequence[StatefulOperator]) -> dict[int, set[int]]:
    """Return, for each operator that leads its tasks, those whose output it reads."""
    from elastream.spark.observe.task_events import lead_of

    leads = lead_of(operators)
    found: dict[int, set[int]] = {lead: set() for lead in leads.values()}
    for operator in operators:
        if operator.reader is not None and leads[operator.reader] != leads[operator.id]:
            found[leads[operator.reader]].add(leads[operator.id])
    return found
