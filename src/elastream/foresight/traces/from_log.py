"""Make a trace from a decision log: work and state of every task, interval by interval.

The log's samples show what every task cost at a moment. An interval has the mean of its samples;
one without samples repeats the previous interval, since load does not vanish because it was not
sampled. Work is in core-seconds per interval, rows are what the queries read in it, and node counts
are the number of executors that existed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from elastream.core.decision_log import read_log
from elastream.core.samples import Sample
from elastream.foresight.traces.folder import commit, prepare, publish, write_nodes
from elastream.model.checks import positive
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId
from elastream.model.words import join_names

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MOST_CELLS: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class LogTrace:
    """Summary of the trace."""

    intervals: int
    tasks: tuple[TaskId, ...]
    nodes: tuple[int, ...]
    """Executors in each interval."""


def trace_from_log(
    log: Path,
    out: Path,
    *,
    every_s: float = 60.0,
    queries: Sequence[str] = (),
    overwrite: bool = False,
) -> LogTrace:
    """Make a trace of a log's samples, of all queries or of those named."""
    positive("every_s", every_s)
    every_ms = round(every_s * 1000)
    if every_ms < 1:
        raise ProblemError("every_s", f"{every_s:g} s is shorter than a millisecond")
    samples = [entry for entry in read_log(log) if isinstance(entry, Sample)]
    if not samples:
        raise ProblemError(str(log), "holds no samples: the loop takes one a minute")
    tasks = _tasks(samples, queries)
    begin_ms = samples[0].at_ms // every_ms * every_ms
    intervals = (samples[-1].at_ms - begin_ms) // every_ms + 1
    if intervals * len(tasks) > _MOST_CELLS:
        raise ProblemError(
            "every_s", f"{every_s:g} s makes {intervals} intervals; take longer ones"
        )
    work, state, rows, nodes = _filled(samples, tasks, begin_ms, every_ms, int(intervals))
    unfinished = prepare(out, overwrite=overwrite)
    times = begin_ms + every_ms * np.arange(intervals)
    per_task = {
        "task": np.tile(np.arange(len(tasks)), int(intervals)),
        "work": (work * every_s).ravel(),
        "keys": np.zeros(work.size, dtype=np.int64),
        "state_bytes": state.ravel(),
    }
    _write(unfinished / "tasks", np.repeat(times, len(tasks)), per_task)
    totals = np.rint(rows * every_s).astype(np.int64)
    _write(unfinished / "totals", times, {"rows": totals, "records": totals})
    least, most = int(nodes.min()), int(nodes.max())
    counts = tuple(int(number) for number in nodes)
    write_nodes(unfinished, {"min": least, "max": most, "of": "executors", "nodes": counts})
    report = {"intervals": int(intervals), "tasks": len(tasks), "log": log.name}
    commit(unfinished, {"settings": {"every_s": every_s}, "report": report})
    publish(unfinished, out)
    return LogTrace(int(intervals), tasks, counts)


def _tasks(samples: Iterable[Sample], queries: Sequence[str]) -> tuple[TaskId, ...]:
    found = {task for sample in samples for task in sample.tasks}
    known = {task.query for task in found}
    for query in queries:
        if query not in known:
            names = join_names(sorted(known))
            raise ProblemError("queries", f"{query!r} is not in the log; there are {names}")
    return tuple(sorted(task for task in found if not queries or task.query in queries))


def _filled(
    samples: Sequence[Sample],
    tasks: tuple[TaskId, ...],
    begin_ms: int,
    every_ms: int,
    intervals: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return work, state, rows a second and executors of every interval."""
    place = {task: column for column, task in enumerate(tasks)}
    work = np.zeros((intervals, len(tasks)))
    state = np.zeros((intervals, len(tasks)))
    rows, nodes, seen = np.zeros(intervals), np.zeros(intervals), np.zeros(intervals)
    for sample in samples:
        at = (sample.at_ms - begin_ms) // every_ms
        seen[at] += 1
        nodes[at] += len(sample.executors)
        rows[at] += sum(sample.rows_per_s.values())
        for task, each in sample.tasks.items():
            if task in place:
                work[at, place[task]] += each.work
                state[at, place[task]] += each.state_bytes
    for at in range(intervals):
        if seen[at]:
            for table in (work, state, rows, nodes):
                table[at] /= seen[at]
        else:  # the first interval has a sample
            for table in (work, state, rows, nodes):
                table[at] = table[at - 1]
    return work, np.rint(state).astype(np.int64), rows, np.rint(nodes).astype(np.int64)


def _write(folder: Path, times: NDArray[np.int64], columns: Mapping[str, Any]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    time = pa.array(times, pa.int64()).cast(pa.timestamp("ms"))
    parquet.write_table(pa.table({"time": time, **columns}), folder / "part-0.parquet")
