"""How long the state that moves with a batch travels between executors of limited bandwidth.

State travels in phases (:mod:`~elastream.placement.transfer.transfer_phases`), which take the least
time that any schedule takes: that of the executor that sends or receives most. Or it travels all at
once, with links shared fairly (:mod:`~elastream.testing.fair_shares`). State whose executor is gone
comes from the checkpoint, where no link is short: only who receives it has to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from elastream.model.observation import TaskId, TaskObservation
from elastream.placement.transfer.transfer_phases import least_length
from elastream.testing.fair_shares import fairly_shared_s


def transfer_ms(
    before: Mapping[TaskId, str],
    tasks: Iterable[TaskObservation],
    bytes_per_s: float | None,
    *,
    at_once: bool = False,
) -> float:
    """Return how long the state of those tasks travels that were elsewhere ``before``, or nowhere.

    ``bytes_per_s`` is what each executor's link carries, in and out; ``None``: no time at all.
    ``at_once``: all of it at the same time, in no phases.
    """
    if bytes_per_s is None:
        return 0.0
    moved = [task for task in tasks if before.get(task.task) != task.executor]
    ends: dict[object, int] = {}
    volumes = [
        (
            ends.setdefault(before.get(task.task, task.task), len(ends)),
            ends.setdefault(task.executor, len(ends)),
            task.state_bytes,
        )
        for task in moved
    ]
    if at_once:
        return 1000 * fairly_shared_s(volumes, bytes_per_s)
    return 1000 * least_length(volumes) / bytes_per_s
