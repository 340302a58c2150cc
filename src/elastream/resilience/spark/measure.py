"""``measure``: measure the cost of each task in a trial run, as a problem of resilient placement.

Running queries are observed for a number of batches, wherever their state is;
:mod:`elastream.resilience.model.costs` turns the batches into costs. The graph of the problem
has an operator for each (query, operator, partition) triple, and a node for each executor. Costs
are in seconds of executor run time, rates in rows per second.

Streams are the sources of queries. Several queries may read the same one, and a query may read
several. The rows that a join keeps on each side are counted once, at the end, by reading its state.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from elastream.model.checks import count
from elastream.model.errors import ProblemError, QueryRefusedError, SparkError
from elastream.model.observation import BatchObservation, TaskId
from elastream.model.words import printable
from elastream.resilience.model.graph import GraphOperator, QueryGraph
from elastream.resilience.model.problem import ResilientProblem

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.resilience.model.costs import QueryTrial
    from elastream.spark.internals.spark_internals import SparkInternals
    from elastream.spark.observe.watched_query import WatchedQuery


_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.5
_LEAST_CAPACITY: Final = 0.1
"""At least this many of an executor's slots count as free, whatever else it does."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of a trial run."""

    graph: QueryGraph
    """An operator for each task, query by query in the given order."""
    capacity: tuple[float, ...]
    """Seconds of run time per second of each executor: its slots minus the load of tasks without
    state at any rates."""
    rates: tuple[float, ...]
    """Rows per second of each input in the trial."""
    unplaced: tuple[tuple[float, ...], ...] = ()
    """A row for each executor: seconds that tasks without state take there per row of each
    input."""
    least_rates: tuple[float, ...] = ()
    """Rows per second of each input in its batch with the fewest."""
    tasks: tuple[TaskId, ...] = ()
    """The task of each operator of the graph."""
    executors: tuple[str, ...] = ()
    """The ids of the executors."""

    def fields(self, *, lower_bound: bool = False) -> dict[str, Any]:
        """Return the problem as ``elastream plan resilient`` reads it.

        With ``lower_bound`` rates are assumed never to fall below the lowest measured.
        """
        graph: dict[str, Any] = {
            "inputs": list(self.graph.inputs),
            "operators": [_operator_fields(operator) for operator in self.graph.operators],
        }
        if self.graph.transfer_cost:
            graph["transfer_cost"] = self.graph.transfer_cost
        fields: dict[str, Any] = {"graph": graph, "capacity": list(self.capacity)}
        if self.unplaced:
            fields["unplaced"] = [list(row) for row in self.unplaced]
        if lower_bound:
            fields["lower_bound"] = list(self.least_rates)
        if self.tasks:
            fields["tasks"] = [task._asdict() for task in self.tasks]
        if self.executors:
            fields["executors"] = list(self.executors)
        return fields

    def problem(self, *, lower_bound: bool = False) -> ResilientProblem:
        """Return the problem for the planner."""
        from elastream.resilience.planner.load_model import linear_load

        least = self.least_rates if lower_bound else None
        return linear_load(self.graph).problem(
            self.capacity,
            least,
            self.unplaced or None,
            tasks=self.tasks,
            executors=self.executors,
        )


def _operator_fields(operator: GraphOperator) -> dict[str, Any]:
    fields = {
        "name": operator.name,
        "inputs": list(operator.inputs),
        "cost": operator.cost,
        "selectivity": operator.selectivity,
    }
    if operator.fixed:
        fields["fixed"] = operator.fixed
    if operator.window is not None:
        fields |= {"kind": operator.kind, "window": operator.window, "left": operator.left}
    return fields


def measure(
    queries: Sequence[StreamingQuery],
    inputs: Sequence[str | Sequence[str]] | None = None,
    *,
    batches: int = 20,
    skip: int = 2,
    timeout_s: float = 600.0,
    heard: Callable[[str, BatchObservation], None] | None = None,
) -> Measured:
    """Observe running queries for some batches and return the costs of their tasks.

    ``inputs`` names the stream that each query reads, or its streams in the order of its sources in
    progress reports; queries that read the same stream use the same name. If left out, every query
    reads streams of its own, named after it. The first ``skip`` batches of each query, in which
    code is compiled, are ignored. ``heard`` is called with every batch and the name of its query.

    Raises :class:`~elastream.model.errors.ElastreamError` with one line if that cannot be measured,
    or a query runs fewer batches within ``timeout_s``. The queries keep running.
    """
    from elastream.resilience.spark.watching import batches_of, watching

    count("batches", batches, least=1)
    count("skip", skip)
    if inputs is not None and len(inputs) != len(queries):
        raise ProblemError("inputs", f"has {len(inputs)} names; there are {len(queries)} queries")
    with watching(queries) as running:
        trials = [
            _Trial(query, watched, [])
            for query, watched in zip(running.queries, running.watched, strict=True)
        ]
        names = _streams(trials, inputs)
        seen = {trial.watched.name: trial.seen for trial in trials}

        def note(batch: BatchObservation) -> None:
            if batch.rows > 0 or seen[batch.query]:  # a trial starts with rows
                seen[batch.query].append(batch)
            if heard is not None:
                heard(batch.query, batch)

        batches_of(running.monitor, note)
        deadline = time.monotonic() + timeout_s
        for trial in trials:
            while len(trial.seen) < skip + batches:
                _check_running(trial, skip, batches, timeout_s, time.monotonic() > deadline)
                time.sleep(_LOOK_S)
        readings = [
            _reading(
                running.internals,
                trial.watched,
                tuple(trial.seen[skip : skip + batches]),
                names[trial.watched.name],
            )
            for trial in trials
        ]
        slots = {each.id: each.slots for each in running.internals.executors()}
        return _measured(slots, readings)


class _Trial(NamedTuple):
    """One query."""

    query: StreamingQuery
    watched: WatchedQuery
    seen: list[BatchObservation]
    """Its batches so far; a listener's thread adds to them."""


def _check_running(trial: _Trial, skip: int, batches: int, timeout_s: float, is_late: bool) -> None:
    name = trial.watched.name
    if not trial.query.isActive:
        raise QueryRefusedError(f"the query {name} stopped while it was measured")
    if is_late:
        raise SparkError(
            f"the query {name} ran {max(0, len(trial.seen) - skip)} of {batches} batches within "
            f"{timeout_s:g} s; give it more input, or measure fewer"
        )


def _streams(
    trials: Sequence[_Trial], inputs: Sequence[str | Sequence[str]] | None
) -> dict[str, tuple[str, ...]]:
    """Return the names of each query's sources."""
    streams_of_query: dict[str, tuple[str, ...]] = {}
    for place, trial in enumerate(trials):
        name, sources = trial.watched.name, _sources(trial.query)
        given: Any = None if inputs is None else inputs[place]
        if given is None:
            own = tuple(f"{name} source {number}" for number in range(sources))
            streams_of_query[name] = own if sources > 1 else (name,)
            continue
        names = (given,) if isinstance(given, str) else tuple(given)
        if len(names) != sources:
            what = f"has {len(names)} names; the query {name} reads {sources} sources"
            raise ProblemError(f"inputs[{place}]", what)
        streams_of_query[name] = names
    return streams_of_query


def _sources(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return 1 if progress is None else len(progress["sources"])


def _reading(
    internals: SparkInternals,
    watched: WatchedQuery,
    batches: tuple[BatchObservation, ...],
    streams: tuple[str, ...],
) -> QueryTrial:
    from elastream.resilience.model.costs import QueryTrial

    interval_ms = watched.trigger.interval_ms
    if sum(batch.rows for batch in batches) == 0:
        raise SparkError(f"the query {watched.name} read no rows in {len(batches)} batches")
    return QueryTrial(
        watched.name,
        watched.graph,
        watched.tasks,
        streams,
        internals.queries.scans(watched.query),
        batches,
        _join_states(internals, watched),
        None if interval_ms is None else interval_ms / 1000,
    )


def _join_states(internals: SparkInternals, watched: WatchedQuery) -> Mapping[int, tuple[int, int]]:
    """Count the rows in state on both sides of each join, from its checkpoint."""
    from elastream.spark.observe.own_work import marked
    from elastream.spark.observe.task_events import lead_of

    leads = lead_of(watched.operators)
    rows_by_join: dict[int, tuple[int, int]] = {}
    for operator in watched.operators:
        if operator.read_steps is None:
            continue
        reader = internals.spark.read.format("statestore").option("operatorId", operator.id)
        place = operator.root.rsplit("/", 1)[0]
        try:
            with marked(internals.spark):
                left, right = (
                    reader.option("joinSide", side).load(place).count()
                    for side in ("left", "right")
                )
        except Exception as error:  # then both sides are assumed equal
            name, why = printable(watched.name), printable(str(error))
            _log.warning("the state of %s was not counted: %s", name, why)
            continue
        rows_by_join[leads[operator.id]] = left, right
    return rows_by_join


def _measured(slots: Mapping[str, int], readings: Sequence[QueryTrial]) -> Measured:
    from elastream.resilience.model.costs import operators_of, outside_costs, transfer_cost

    inputs = tuple(dict.fromkeys(stream for each in readings for stream in each.streams))
    rates = {stream: rows / each.seconds for each in readings for stream, rows in each.rows.items()}
    least = {stream: rate for each in readings for stream, rate in each.least_rates.items()}
    outside = [(each.streams, outside_costs(each)) for each in readings]
    operators = [operator for each in readings for operator in operators_of(each)]
    return Measured(
        QueryGraph.of(inputs, operators, transfer_cost(readings)),
        tuple(
            max(
                _LEAST_CAPACITY * number,
                number - sum(costs.at_any_rate.get(executor, 0.0) for _, costs in outside),
            )
            for executor, number in slots.items()
        ),
        tuple(rates[stream] for stream in inputs),
        tuple(
            tuple(
                sum(c.by_row.get(executor, 0.0) for streams, c in outside if stream in streams)
                for stream in inputs
            )
            for executor in slots
        ),
        tuple(least[stream] for stream in inputs),
        tuple(task for each in readings for task in each.tasks),
        tuple(slots),
    )
