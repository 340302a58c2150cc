"""The current load of an application: the last sample and utilisation in its decision log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from elastream.core.decision_log import read_log
from elastream.core.samples import Sample
from elastream.handover.model import Window
from elastream.handover.relief import ApplicationLoad, QueryLoad
from elastream.model.errors import ProblemError


class NoLoadYetError(ProblemError):
    """The log of an application that has just started has no load yet."""


def load_from_log(
    name: str, log: Path, windows: Mapping[str, Window | None], cores: float = 1
) -> ApplicationLoad:
    """Return the load of an application with ``cores`` cores per executor.

    Of its queries, those in ``windows`` with measured work may leave. A sample is taken once a
    minute, and the first may contain no work. If no decision records the utilisation of the
    executors, it is the work of all tasks. An application that has ended has no load.
    """
    sample: Sample | None = None
    utilisation: float | None = None
    ended = False
    for entry in read_log(log):
        if isinstance(entry, Sample):
            sample = entry
            continue
        ended = entry.kind == "detach"
        if entry.utilisation is not None:
            utilisation = entry.utilisation
    if sample is None:
        raise NoLoadYetError(str(log), "has no sample yet; wait for some batches")
    if not sample.executors:
        raise ProblemError(str(log), "has no executors")
    all_cores = cores * len(sample.executors)
    if ended:
        return ApplicationLoad(name, all_cores, 0.0)
    work, state = dict[str, float](), dict[str, float]()
    for task, task_sample in sample.tasks.items():
        work[task.query] = work.get(task.query, 0.0) + task_sample.work
        state[task.query] = state.get(task.query, 0.0) + task_sample.state_bytes
    queries = tuple(
        QueryLoad(query, work[query], state[query], sample.rows_per_s.get(query, 0.0), window)
        for query, window in windows.items()
        if work.get(query)
    )
    busy = sum(work.values()) if utilisation is None else utilisation * all_cores
    return ApplicationLoad(name, all_cores, max(busy, sum(work.values())), queries)
