"""Costs of tasks from the batches of running queries (section 7.1 of paper 003). Pure functions.

For every (query, operator, partition) triple, with x the rows (or pairs) it handled and y its run
time in a batch:

* **Load is affine.** ``y = a + c x`` is fitted by least squares over the batches and the partitions
  of an operator, with ``a``, the load at any rates, between zero and the least mean run time.
* **cost** is the rest of the run time, **selectivity** the output rows, per row of the streams that
  the operator reads: a task gets a share of these rows, but all its work grows with their rate.
* **A join** is counted in pairs of rows. Its *window* follows from its state by Little's law: rows
  stay on a side for (rows in state / rows per second) seconds, and a row of one side meets those
  that stay on the other, so the sum of both times is the window w of ``w u v`` pairs per second.
* **Work without state** (reading, parsing, sinks) runs on executors that cannot be chosen: it is
  load that cannot be placed. Its own ``a`` is subtracted from the capacity.
* **transfer cost** is the run time in which tasks waited for rows from other executors, per such
  row. The work at the other end is assumed to be the same. Each reader gets an equal share of the
  rows that a task puts out, so per row of that the cost is divided by their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from elastream.model.errors import QueryRefusedError, SparkError
from elastream.model.observation import (
    BatchObservation,
    OperatorGraph,
    Side,
    TaskId,
    TaskObservation,
)
from elastream.resilience.model.graph import GraphOperator


def at_none(points: Sequence[tuple[float, float]], most: float) -> float:
    """Return y at x = 0 of the least-squares line with non-negative coefficients, up to ``most``.

    Points with the same x do not determine it: then it is 0.
    """
    number = len(points)
    mean_x = sum(x for x, _ in points) / number
    mean_y = sum(y for _, y in points) / number
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread <= _SAME * mean_x**2 * number:
        return 0.0
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return min(max(0.0, mean_y - max(0.0, slope) * mean_x), most)


_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class QueryTrial:
    """The batches of one query, and the streams it reads."""

    name: str
    graph: OperatorGraph
    tasks: tuple[TaskId, ...]
    """All its tasks, in order."""
    streams: tuple[str, ...]
    """The name of each source, by its number."""
    scans: tuple[int, ...]
    """How often each source is read; empty: once."""
    batches: tuple[BatchObservation, ...]
    state_rows: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Rows in state on each side of a join, by operator, if they were counted."""
    trigger_s: float | None = None
    """Trigger interval; ``None``: each batch starts as soon as the previous one ends."""

    @property
    def seconds(self) -> float:
        """From the end of the batch before the first to the end of the last."""
        return sum(each.interval_ms or each.duration_ms for each in self.batches) / 1000

    @property
    def batches_a_second(self) -> float:
        """How often its tasks run: at every trigger, or as often as in the trial.

        A trial may have had triggers without rows, at which no batch ran; at the rates that a plan
        is made for there are none. If batches took longer than the interval on average, the query
        does not keep it, and only the pace of the trial is known.
        """
        took_s = sum(each.duration_ms for each in self.batches) / 1000 / len(self.batches)
        if self.trigger_s is not None and took_s <= self.trigger_s:
            return 1 / self.trigger_s
        return len(self.batches) / self.seconds

    def source_rows(self, batch: BatchObservation) -> tuple[float, ...]:
        """Return the rows that a batch read of each source, counted once if read repeatedly."""
        rows_read = batch.source_rows or (batch.rows,)
        scans = self.scans or (1,) * len(rows_read)
        return tuple(rows / max(1, times) for rows, times in zip(rows_read, scans, strict=True))

    @property
    def rows(self) -> dict[str, float]:
        """Rows of each stream, summed over all batches."""
        totals = dict.fromkeys(self.streams, 0.0)
        for batch in self.batches:
            for stream, rows in zip(self.streams, self.source_rows(batch), strict=True):
                totals[stream] += rows
        return totals

    @property
    def least_rates(self) -> dict[str, float]:
        """Rows per second of each stream in its batch with the fewest."""
        rates: dict[str, float] = {}
        for batch in self.batches:
            seconds = (batch.interval_ms or batch.duration_ms) / 1000
            for stream, rows in zip(self.streams, self.source_rows(batch), strict=True):
                rates[stream] = min(rates.get(stream, rows / seconds), rows / seconds)
        return rates


@dataclass(frozen=True, slots=True)
class OutsideCosts:
    """Cost of tasks without state."""

    at_any_rate: Mapping[str, float]
    """Number of cores kept busy without any row, by executor."""
    by_row: Mapping[str, float]
    """Seconds per row of any of the query's streams, by executor."""


def outside_costs(trial: QueryTrial) -> OutsideCosts:
    """Return the cost of a query outside its stateful tasks, by executor."""
    points = [
        (sum(trial.source_rows(batch)), sum(batch.outside_ms.values())) for batch in trial.batches
    ]
    fixed_ms = at_none(points, min(y for _, y in points))
    total_s = sum(y for _, y in points) / 1000
    fixed = fixed_ms * len(points) / 1000 / total_s if total_s else 0.0
    rows = sum(trial.rows.values())
    spent: dict[str, float] = {}
    for batch in trial.batches:
        for executor, run_ms in batch.outside_ms.items():
            spent[executor] = spent.get(executor, 0.0) + run_ms / 1000
    pace = trial.batches_a_second / len(trial.batches)
    return OutsideCosts(
        {executor: fixed * run_s * pace for executor, run_s in spent.items()},
        {executor: (1 - fixed) * run_s / rows for executor, run_s in spent.items()},
    )


def operators_of(trial: QueryTrial) -> list[GraphOperator]:
    """Return the operators of a graph, one for each task of the query, in their order."""
    tasks = trial.tasks
    observed: dict[TaskId, list[TaskObservation]] = {task: [] for task in tasks}
    for batch in trial.batches:
        for observation in batch.tasks:
            observed[observation.task].append(observation)
    unmeasured = [task for task in tasks if not observed[task]]
    if unmeasured:
        raise SparkError(f"the query {trial.name} reported nothing for its task {unmeasured[0]}")
    leads = list(dict.fromkeys(task.operator for task in tasks))
    read_by = {lead: _inputs(trial, lead) for lead in leads}
    output_rows = _output_rows(observed, read_by)
    operators: list[GraphOperator] = []
    for lead in leads:
        own = {task: observed[task] for task in tasks if task.operator == lead}
        sides = read_by[lead]
        names, rows = [], []
        for side in sides:
            sources = [task for task in tasks if task.operator in side.operators]
            streams = tuple(dict.fromkeys(trial.streams[number] for number in side.sources))
            names.append([*map(str, sources), *streams])
            given = sum(output_rows[task] or 0 for task in sources)
            rows.append(given + sum(trial.rows[stream] for stream in streams))
        fed = any(side.operators for side in sides)
        operators += _pairs(trial, lead, own, names, rows, output_rows, fed=fed)
    return operators


def transfer_cost(trials: Sequence[QueryTrial]) -> float:
    """Return the seconds of run time that a row costs its reader if it is on another executor.

    It is per row that a task puts out for all partitions of its reader.
    """
    tasks = [task for each in trials for batch in each.batches for task in batch.tasks]
    fetched = sum(task.rows_fetched for task in tasks)
    if not fetched:
        return 0.0
    readers = [
        sum(task.operator == above for task in each.tasks)
        for each in trials
        for above in each.graph.feeds.values()
        if above is not None
    ]
    each_ms = sum(task.fetch_ms for task in tasks) / fetched
    return each_ms / 1000 * len(readers) / max(1, sum(readers)) if readers else 0.0


def _inputs(trial: QueryTrial, lead: int) -> tuple[Side, ...]:
    """Return what the tasks of an operator read: two sides if they join, else one."""
    everything = tuple(range(len(trial.streams)))
    above = trial.graph.sources_of(lead)
    sides = trial.graph.sides.get(lead, (Side(() if above else everything, above),))
    if not sides:
        raise QueryRefusedError(
            f"operator {lead} of the query {trial.name} joins more than two streams in one task; "
            "write its graph by hand"
        )
    if any(number not in everything for side in sides for number in side.sources):
        raise SparkError(f"the query {trial.name} does not report the rows of each of its sources")
    if len(sides) == 1 and not any(sides[0]):
        if len(everything) > 1:
            raise QueryRefusedError(
                f"operator {lead} of the query {trial.name} does not show which of "
                f"{len(everything)} sources it reads; write its graph by hand"
            )
        return (Side(everything, ()),)
    return sides


def _output_rows(
    observed: Mapping[TaskId, Sequence[TaskObservation]], read_by: Mapping[int, Sequence[Side]]
) -> dict[TaskId, float | None]:
    """Return the output rows of each task; ``None`` if Spark does not report them.

    Spark counts none for a user's own processor (``transformWithState``). If an operator reads only
    the output of such tasks, the output is the rows it read, divided by the input of each of them.
    """
    output_rows: dict[TaskId, float | None] = {
        task: _rows_out(observations) for task, observations in observed.items()
    }
    for reader, sides in read_by.items():
        if len(sides) != 1 or sides[0].sources or len(sides[0].operators) != 1:
            continue
        givers = [task for task in observed if task.operator == sides[0].operators[0]]
        if any(output_rows[task] for task in givers):
            continue
        read = sum(
            each.rows
            for task, observations in observed.items()
            if task.operator == reader
            for each in observations
        )
        taken = {task: sum(each.rows for each in observed[task]) for task in givers}
        for task in givers:
            output_rows[task] = read * taken[task] / max(1, sum(taken.values()))
    return output_rows


def _pairs(
    trial: QueryTrial,
    lead: int,
    observed: Mapping[TaskId, Sequence[TaskObservation]],
    names: Sequence[Sequence[str]],
    rows: Sequence[float],
    output_rows: Mapping[TaskId, float | None],
    *,
    fed: bool,
) -> Iterable[GraphOperator]:
    """Yield an operator for each partition; ``fed``: it reads what other operators put out."""
    if min(rows) <= 0:
        raise SparkError(
            f"operator {lead} of the query {trial.name} read no rows; measure more batches"
        )
    joins = len(names) == 2
    window_s = _window_s(trial, lead, observed) if joins else None
    handled = rows[0] if window_s is None else window_s * rows[0] * rows[1] / trial.seconds
    points, means = [], []
    for observations in observed.values():
        times = [_own_ms(each, fed=fed) for each in observations]
        means.append(sum(times) / len(times))
        points += list(zip(_handled(observations, joins=joins), times, strict=True))
    at_none_ms = at_none(points, min(means))
    for (task, observations), mean_ms in zip(observed.items(), means, strict=True):
        out = output_rows[task]
        yield GraphOperator.of(
            str(task),
            [name for side in names for name in side],
            (mean_ms - at_none_ms) * len(observations) / 1000 / handled,
            None if out is None else out / handled,
            kind="join" if joins else "linear",
            window=window_s,
            fixed=at_none_ms / 1000 * trial.batches_a_second,
            left=len(names[0]) if joins else None,
        )


def _handled(observations: Sequence[TaskObservation], *, joins: bool) -> list[float]:
    """Return what a task handled in each batch: its rows; for a join, scaled by its state.

    A row meets those in state with its key, so that pairs grow with rows and with state, but not
    with the number of keys in a partition.
    """
    full = sum(each.state_rows for each in observations) / len(observations)
    if not joins or full == 0:
        return [float(each.rows) for each in observations]
    return [each.rows * each.state_rows / full for each in observations]


def _own_ms(observation: TaskObservation, *, fed: bool) -> float:
    """Return a task's run time, without the wait for other operators' rows (transfer cost)."""
    return max(0.0, observation.run_ms - observation.fetch_ms) if fed else observation.run_ms


def _rows_out(observations: Sequence[TaskObservation]) -> int | None:
    rows = [each.rows_out for each in observations]
    return None if None in rows else sum(each or 0 for each in rows)


def _window_s(
    trial: QueryTrial, lead: int, observed: Mapping[TaskId, Sequence[TaskObservation]]
) -> float:
    """Return the maximum distance of two rows of a join, both directions together, by its state."""
    observations = [each for tasks in observed.values() for each in tasks]
    read = [sum(each.sides[side] for each in observations if each.sides) for side in (0, 1)]
    state = sum(each.state_rows for each in observations) / len(trial.batches)
    if min(read) == 0 or state == 0:
        raise SparkError(
            f"operator {lead} of the query {trial.name} joined no rows in {len(trial.batches)} "
            "batches; measure more"
        )
    counted = trial.state_rows.get(lead, (read[0], read[1]))
    rows_held = [state * each / max(1, sum(counted)) for each in counted]
    rates = [each / trial.seconds for each in read]
    return rows_held[0] / rates[0] + rows_held[1] / rates[1]
