"""What the tasks of a batch did, by the events of Spark's listener bus; pure functions.

A finished task reports every metric that it raised: its run time, the rows it read, and what its
state stores did. The job that it belongs to names the query and the batch. A task that touched no
state store is work all the same: of a source, a parser, a sink, or of another job.

*Whose state?* Operators with no shuffle between them run in the same tasks, and so live and move
together: they are one operator here, named by the lowest id among them. Where a query has several
such groups, a task's group is known by the accumulators that it raised: each operator has its own,
and Spark numbers them in the order of the plan.

*How large?* The bytes that its new executor has to load. Of RocksDB that is the table files, or the
rows of the state times the mean size of a row as it is written, whichever is more: the files are
written only every tenth batch or so, and the rows written since the monitor began do not cover
those that were there before. RocksDB's "memory used" is mostly cache and buffers. The in-memory
store counts no written bytes; there the memory used is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from elastream.model.observation import OperatorGraph, Side, TaskId, TaskObservation
from elastream.spark.internals.event_tap import TaskEvent
from elastream.spark.internals.queries import StatefulOperator

_INSTANCES: Final = "numStateStoreInstances"
_ROWS: Final = "numTotalStateRows"
_UPDATED: Final = "numUpdatedStateRows"
_REMOVED: Final = "numRemovedStateRows"
_MEMORY: Final = "stateMemory"
_FILES: Final = "rocksdbSstFileSize"
_WRITTEN: Final = "rocksdbTotalBytesWritten"
_ROWS_OUT: Final = "numOutputRows"
METRICS: Final = (_INSTANCES, _ROWS, _UPDATED, _REMOVED, _MEMORY, _FILES, _WRITTEN, _ROWS_OUT)
"""The metrics of a stateful operator that are read, by Spark's key."""

_RUN_TIME: Final = "internal.metrics.executorRunTime"
_ROWS_READ: Final = (
    "internal.metrics.shuffle.read.recordsRead",
    "internal.metrics.input.recordsRead",
)
_FETCH_WAIT: Final = "internal.metrics.shuffle.read.fetchWaitTime"
_REMOTE_BYTES: Final = "internal.metrics.shuffle.read.remoteBytesRead"
_LOCAL_BYTES: Final = "internal.metrics.shuffle.read.localBytesRead"
_READ_OF_ONE: Final = "records read"
"""What a shuffle of the plan counts in the tasks that read it; a join reads two."""
TASK_COUNTERS: Final = (
    _RUN_TIME,
    *_ROWS_READ,
    _FETCH_WAIT,
    _REMOTE_BYTES,
    _LOCAL_BYTES,
    _READ_OF_ONE,
)
"""The counters of any task that are read, by their names in events."""


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """One finished task."""

    position: int
    """Its place in the stage; the state partition, but for unions."""
    executor: str
    run_ms: int
    rows: int
    writers: tuple[int, ...]
    """An accumulator of each stateful operator that ran in it, in ascending order; none where
    it touched no state, or failed."""
    metrics: Mapping[str, int]
    """Each of the :data:`METRICS` but the rows put out, all its operators together."""
    rows_out: Mapping[int, int] = field(default_factory=dict)
    """Rows put out by each operator that counts them, stateful or not, by its accumulator."""
    rows_in: Mapping[int, int] = field(default_factory=dict)
    """Rows read of each shuffle, by its accumulator."""
    fetch_ms: int = 0
    """Run time in which it waited for rows of other executors."""
    remote_bytes: int = 0
    local_bytes: int = 0

    @property
    def rows_fetched(self) -> float:
        """Rows that came from other executors."""
        return self.rows * self.remote_bytes / max(1, self.remote_bytes + self.local_bytes)


def finished_task(event: TaskEvent, names: Mapping[str, str]) -> FinishedTask:
    """Return the task of an event; one that failed counts as one without state.

    ``names`` has the name in events of each of the :data:`METRICS`.
    """
    keys = {name: key for key, name in names.items()}
    rows = 0
    plain = dict.fromkeys((_RUN_TIME, _FETCH_WAIT, _REMOTE_BYTES, _LOCAL_BYTES), 0)
    writers: list[int] = []
    metrics: dict[str, int] = {}
    rows_out: dict[int, int] = {}
    rows_in: dict[int, int] = {}
    for name, counter, added in event.added:
        if name in plain:
            plain[name] = added
        elif name == _READ_OF_ONE:
            rows_in[counter] = added
        elif name in _ROWS_READ:
            rows += added
        elif keys.get(name) == _ROWS_OUT:
            rows_out[counter] = added
        elif name in keys:
            value = max(0, added)
            metrics[keys[name]] = metrics.get(keys[name], 0) + value
            if keys[name] == _INSTANCES and value:
                writers.append(counter)
    return FinishedTask(
        event.partition,
        event.executor,
        plain[_RUN_TIME],
        rows,
        tuple(sorted(writers)) if event.ended_well else (),
        metrics,
        rows_out,
        rows_in,
        plain[_FETCH_WAIT],
        plain[_REMOTE_BYTES],
        plain[_LOCAL_BYTES],
    )


def lead_of(operators: Iterable[StatefulOperator]) -> dict[int, int]:
    """Return, for each operator, the lowest id among the operators that share its tasks."""
    lowest: dict[int, int] = {}
    operators = tuple(operators)
    for operator in operators:
        lowest[operator.group] = min(operator.id, lowest.get(operator.group, operator.id))
    return {operator.id: lowest[operator.group] for operator in operators}


@dataclass(frozen=True, slots=True)
class Written:
    """What was written to the state of one task since the monitor began."""

    size: int = 0
    """Bytes."""
    rows: int = 0
    """Rows set or removed."""

    def plus(self, metrics: Mapping[str, int]) -> Written:
        """Return this and what one batch wrote."""
        rows = metrics.get(_UPDATED, 0) + metrics.get(_REMOVED, 0)
        return Written(self.size + metrics.get(_WRITTEN, 0), self.rows + rows)


Ledger = Mapping[TaskId, Written]
"""What was written to the state of each task, up to some batch."""


@dataclass(frozen=True, slots=True)
class BatchTasks:
    """What the tasks of one batch did."""

    tasks: tuple[TaskObservation, ...]
    """In order; a task that is not known for certain is left out."""
    ledger: Ledger
    """To be handed in with the next batch."""
    outside_ms: Mapping[str, float]
    """Run time of all that is not in ``tasks``, by executor."""


def batch_tasks(
    query: str,
    finished: Sequence[FinishedTask],
    operators: Sequence[StatefulOperator],
    ledger: Ledger,
) -> BatchTasks:
    """Return what each task did in one batch, from its finished tasks in the order of the events.

    A task that ran twice (its stage was tried again, or its result was computed twice) counts the
    time of both; its state is where the last one ran.
    """
    runs: dict[TaskId, list[FinishedTask]] = {}
    stateful = [task for task in finished if task.writers]
    known = set()
    for lead, partitions, tasks in _by_lead(stateful, operators):
        placed = _partitions({task.position for task in tasks}, partitions)
        for task in tasks:
            if task.position in placed:
                known.add(id(task))
                key = TaskId(query, lead, placed[task.position])
                runs.setdefault(key, []).append(task)
    outside_ms: dict[str, float] = {}
    for task in finished:
        if id(task) not in known:
            outside_ms[task.executor] = outside_ms.get(task.executor, 0.0) + task.run_ms
    after = {
        key: ledger.get(key, Written()).plus(attempts[-1].metrics) for key, attempts in runs.items()
    }
    steps, joins = _output_steps(operators), _join_steps(operators)
    seen = (
        _observation(key, runs[key], after[key], steps.get(key.operator), joins.get(key.operator))
        for key in sorted(runs)
    )
    return BatchTasks(tuple(seen), {**ledger, **after}, outside_ms)


def operator_graph(operators: Sequence[StatefulOperator]) -> OperatorGraph:
    """Return which operator's rows go where; operators that share their tasks are one."""
    leads = lead_of(operators)
    feeds: dict[int, int | None] = dict.fromkeys(sorted(set(leads.values())))
    for operator in operators:
        lead = leads[operator.id]
        above = None if operator.reader is None else leads[operator.reader]
        if above is not None and above != lead:
            feeds[lead] = above
    return OperatorGraph(feeds, {lead: _inputs_of(operators, leads, lead) for lead in feeds})


def _inputs_of(
    operators: Sequence[StatefulOperator], leads: Mapping[int, int], lead: int
) -> tuple[Side, ...]:
    """Return what the tasks of a lead operator read; nothing where they do more than one join."""
    group = {each.id: each for each in operators if leads[each.id] == lead}
    joins = [each.id for each in group.values() if each.read_steps is not None]
    reads: list[tuple[int | None, int | None, int | None]] = []
    for operator in operators:
        if operator.id in group:
            for side, number in operator.sources:
                reads.append((_side_of_join(group, joins, operator, side), number, None))
        elif operator.reader in group:
            side_of = _side_of_join(group, joins, group[operator.reader], operator.side)
            reads.append((side_of, None, leads[operator.id]))
    if len(joins) > 1 or any(side is None for side, _, _ in reads):
        return ()
    return tuple(
        Side(
            tuple(sorted({number for at, number, _ in reads if at == side and number is not None})),
            tuple(sorted({above for at, _, above in reads if at == side and above is not None})),
        )
        for side in range(len(joins) + 1)
    )


def _side_of_join(
    group: Mapping[int, StatefulOperator],
    joins: Sequence[int],
    operator: StatefulOperator,
    side: int,
) -> int | None:
    """Return the side of the join on which rows that ``operator`` reads arrive; ``None``: none."""
    if not joins:
        return 0
    while operator.id not in joins:
        side = operator.side
        if operator.reader is None or operator.reader not in group:
            return None
        operator = group[operator.reader]
    return side


def tasks_of(query: str, operators: Sequence[StatefulOperator]) -> tuple[TaskId, ...]:
    """Return the tasks that a whole batch of a query shows, in order."""
    leads = lead_of(operators)
    found = {
        TaskId(query, leads[operator.id], partition)
        for operator in operators
        for partition in range(operator.partitions)
    }
    return tuple(sorted(found))


def state_bytes(metrics: Mapping[str, int], written: Written) -> int:
    """Return what a state weighs, from its metrics of one batch and all that was written to it."""
    if _WRITTEN not in metrics:
        return metrics.get(_MEMORY, 0)
    estimated = metrics.get(_ROWS, 0) * written.size // written.rows if written.rows else 0
    return max(estimated, metrics.get(_FILES, 0))


def _output_steps(operators: Sequence[StatefulOperator]) -> dict[int, int | None]:
    """Return the output step of each group, by its lead: that of the last of it to run."""
    leads = lead_of(operators)
    last_first = sorted(operators, key=lambda operator: operator.rank)
    return {leads[operator.id]: operator.output_step for operator in reversed(last_first)}


class _JoinSteps(NamedTuple):
    """How the two shuffles that a join reads are known among the accumulators of its task."""

    place: int
    """Of the join among the stateful operators of its task, by rank."""
    left: int
    """From its own accumulator to that of the left shuffle."""
    one: bool
    """Whether both sides read the same shuffle."""


def _join_steps(operators: Sequence[StatefulOperator]) -> dict[int, _JoinSteps]:
    """Return the steps of each group with one join, by its lead."""
    leads = lead_of(operators)
    found: dict[int, _JoinSteps] = {}
    for operator in operators:
        if operator.read_steps is not None:
            lead, (left, right) = leads[operator.id], operator.read_steps
            before = sum(leads[o.id] == lead and o.rank < operator.rank for o in operators)
            found[lead] = _JoinSteps(before, left, left == right)
    return found


def _sides(task: FinishedTask, steps: _JoinSteps | None) -> tuple[int, int] | None:
    """Return the rows of a join's two sides.

    Spark numbers what is on the left before what is on the right, but how far apart they are
    depends on the sources that had rows; so the right side is whatever is not the left one.
    """
    if steps is None or steps.place >= len(task.writers):
        return None
    left = task.rows_in.get(task.writers[steps.place] + steps.left, 0)
    if steps.one:
        return left // 2, left - left // 2
    return left, sum(task.rows_in.values()) - left


def _observation(
    key: TaskId,
    attempts: Sequence[FinishedTask],
    written: Written,
    output_step: int | None,
    join: _JoinSteps | None,
) -> TaskObservation:
    last = attempts[-1]
    return TaskObservation(
        task=key,
        executor=last.executor,
        run_ms=float(sum(task.run_ms for task in attempts)),
        rows=last.rows,
        state_rows=last.metrics.get(_ROWS, 0),
        state_bytes=state_bytes(last.metrics, written),
        rows_out=_rows_out(last, output_step),
        sides=_sides(last, join),
        rows_fetched=last.rows_fetched,
        fetch_ms=float(last.fetch_ms),
        store_memory_bytes=last.metrics.get(_MEMORY, 0),
    )


def _rows_out(task: FinishedTask, output_step: int | None) -> int | None:
    """Return what the last stateful operator of the task put out; Spark reports no zero."""
    if output_step is None:
        return None
    return task.rows_out.get(task.writers[0] + output_step, 0)


def _by_lead(
    finished: Sequence[FinishedTask], operators: Sequence[StatefulOperator]
) -> Iterable[tuple[int, int, list[FinishedTask]]]:
    """Yield each lead operator with its number of partitions and its tasks."""
    leads = lead_of(operators)
    partitions = {leads[operator.id]: operator.partitions for operator in operators}
    if len(partitions) == 1:
        (lead,) = partitions
        yield lead, partitions[lead], list(finished)
        return
    accumulators = sorted({writer for task in finished for writer in task.writers})
    if len(accumulators) != len(operators):
        return
    ranked = sorted(operators, key=lambda operator: operator.rank)
    leads_of_writers = {
        accumulator: leads[operator.id]
        for accumulator, operator in zip(accumulators, ranked, strict=True)
    }
    for lead, number in partitions.items():
        yield lead, number, [task for task in finished if leads_of_writers[task.writers[0]] == lead]


def _partitions(positions: set[int], partitions: int) -> dict[int, int]:
    """Return the state partition of each place in the stage.

    They are the same, but for a union that puts the tasks of several operators behind one another:
    there the operator's tasks are consecutive, and known only when all of them were seen.
    """
    if all(position < partitions for position in positions):
        return {position: position for position in positions}
    if len(positions) == partitions:
        return {position: partition for partition, position in enumerate(sorted(positions))}
    return {}
