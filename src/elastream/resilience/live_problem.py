"""The problem of a running application, from what its batches show (sections 6 and 7.1).

Costs, windows of joins and what rows between executors cost come from the last batches of each
query, as in a trial run (:mod:`elastream.resilience.model.costs`). The lower bound of a stream is
the lowest rate that a batch has had. A query of which too little is known, as one that a trial
refuses, has one variable: the rows that it reads of all its sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from elastream.core.application import Observed, Query
from elastream.model.errors import ElastreamError
from elastream.model.observation import BatchObservation
from elastream.resilience.model.costs import QueryTrial, operators_of, transfer_cost
from elastream.resilience.model.graph import GraphOperator, QueryGraph
from elastream.resilience.model.problem import ResilientProblem

Inputs = Mapping[str, str | Sequence[str]]
"""The stream that a query reads, or its streams in the order of its sources."""

_BATCHES_KEPT: Final = 10
_LEAST_CAPACITY: Final = 0.1
"""At least this share of an executor's slots counts as free, whatever else it does."""
_MOST_ARCS: Final = 4_000
"""With more streams between tasks, clustering them would take minutes: they are taken for free."""
_MOST_STREAMS: Final = 1_000_000
"""With more streams between its tasks a query has one variable."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of one run of a query."""

    number: int = 0
    """How many batches it has shown."""
    batches: tuple[BatchObservation, ...] = ()
    """The last of them in which nothing moved."""
    least_rates: tuple[float, ...] = ()
    """Rows per second of each source in the batch with the fewest."""

    def with_batch(self, batch: BatchObservation, *, disturbed: bool) -> Record:
        """Return the record after one more batch."""
        kept = self.batches if disturbed else (*self.batches, batch)[-_BATCHES_KEPT:]
        least = self.least_rates
        if batch.interval_ms:
            seconds = max(batch.interval_ms, batch.duration_ms) / 1000
            rates = tuple(rows / seconds for rows in batch.source_rows or (batch.rows,))
            least = tuple(map(min, least, rates)) if len(least) == len(rates) else rates
        return Record(self.number + 1, kept, least)


def live_problem(
    observed: Observed,
    records: Mapping[tuple[str, str], Record],
    inputs: Inputs,
    *,
    lowest_rates: bool,
) -> ResilientProblem:
    """Return the costs of all tasks, in their order, and the free capacity of each executor."""
    from elastream.resilience.planner.load_model import linear_load

    trials: list[QueryTrial] = []
    operators: list[GraphOperator] = []
    least: dict[str, float] = {}
    for query in observed.queries.values():
        record = records.get((query.name, query.run), Record())
        trial = _trial(query, record, inputs.get(query.name))
        own = _measured(trial)
        if own is None:
            trial = replace(trial, streams=trial.streams[:1])
            own = list(_by_rows_read(query, trial.streams[0]))
        else:
            trials.append(trial)
        operators += own
        rates = record.least_rates if lowest_rates and not query.idle else ()
        known = len(rates) == len(trial.streams) and own
        for number, stream in enumerate(trial.streams):
            rate = rates[number] if known else 0.0
            least[stream] = min(rate, least.get(stream, rate))
    if not any(each.cost for each in operators):  # nothing has been measured
        operators = [replace(each, cost=1) for each in operators]
    graph = QueryGraph.of(tuple(least), operators)
    if len(graph.arcs) <= _MOST_ARCS:
        graph = replace(graph, transfer_cost=transfer_cost(trials))
    capacity = [
        max(_LEAST_CAPACITY * executor.slots, executor.slots - observed.outside(executor.id))
        for executor in observed.executors
    ]
    return linear_load(graph).problem(capacity, tuple(least.values()))


def _trial(query: Query, record: Record, given: str | Sequence[str] | None) -> QueryTrial:
    sources = max((len(batch.source_rows) for batch in record.batches), default=1) or 1
    own: tuple[str, ...] = (query.name,)
    if sources > 1:
        own = tuple(f"{query.name} source {number}" for number in range(sources))
    if isinstance(given, str):
        given = (given,) * sources
    return QueryTrial(
        query.name,
        query.graph,
        tuple(query.load.tasks),
        (*(given or ()), *own[len(given or ()) :])[:sources],
        (),
        record.batches,
        trigger_s=query.trigger_ms / 1000 if query.trigger_ms else None,
    )


def _measured(trial: QueryTrial) -> list[GraphOperator] | None:
    """Return an operator for each task as in a trial run; ``None`` where that is not possible.

    Nor is it where batches show no work that grows with rows.
    """
    tasks = [task.operator for task in trial.tasks]
    streams = sum(
        tasks.count(one) * tasks.count(other)
        for one, other in trial.graph.feeds.items()
        if other is not None
    )
    if not trial.batches or streams > _MOST_STREAMS:
        return None
    try:
        operators = operators_of(trial)
    except ElastreamError:
        return None
    return operators if any(each.cost for each in operators) else None


def _by_rows_read(query: Query, stream: str) -> Iterator[GraphOperator]:
    """Yield an operator for each task, its work in proportion to the rows that the query reads."""
    rate = query.load.rows_per_s or 1.0
    for task, load in query.load.tasks.items():
        yield GraphOperator.of(str(task), (stream,), max(load.work, 0.0) / rate)
