"""What an attachment would have recorded: samples and changes, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from elastream.core.decisions import Decision
from elastream.core.samples import Sample, TaskSample
from elastream.model.observation import TaskId


def sample(
    at_s: int,
    executors: Sequence[str],
    load: Mapping[TaskId, tuple[float, int]],
    rows_per_s: Mapping[str, float] | None = None,
) -> Sample:
    """Return a sample with every task on the first executor."""
    return Sample(
        at_ms=at_s * 1000,
        executors=tuple(executors),
        wanted=len(executors),
        tasks={task: TaskSample(executors[0], *each) for task, each in sorted(load.items())},
        rows_per_s=rows_per_s or {},
    )


def done(at_s: int, executors: int) -> Decision:
    return Decision(at_s * 1000, None, "done", f"to {executors} executors", executors, None, {})
