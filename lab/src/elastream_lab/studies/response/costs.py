"""What batches, rows and moves cost on real executors, as a simulated cluster needs to know it.

Of the operator that takes most time. A post costs what its tasks ran in batches that moved nothing;
a batch costs, in addition, the time by which it took longer than its busiest executor ran those
tasks. A task that has come to another executor ran longer than it does else: a part for each move
and a part for each MiB of its state, by least squares, neither below nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean, median
from typing import Any, Final

import numpy as np

from elastream.model.errors import ElastreamError, ProblemError
from elastream.model.observation import BatchObservation, TaskId, TaskObservation

_MIB: Final = 1 << 20
_FEWEST_MOVES: Final = 3
"""From fewer no line is drawn: all is then a part for each move."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one application at one window."""

    application: str
    window: int
    nodes: float
    """How many executors held state, in the mean."""
    posts_a_second: float
    post_ms: float
    """What a post takes in stateful tasks."""
    overhead_ms: float
    """What a batch takes in addition."""
    load_ms: float
    """What a task that comes takes in addition, however little state it has."""
    load_ms_per_mib: float
    state_bytes: int
    moves: int
    """How many tasks came to another executor."""

    def as_json(self) -> dict[str, Any]:
        """Return them as a row."""
        return asdict(self)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Costs:
        """Return what a row reported; raises ``ProblemError`` where it is none."""
        names = {field.name for field in fields(cls)}
        if not isinstance(row, Mapping) or not names <= row.keys():
            raise ProblemError("measured", "has no costs that this study has written")
        return cls(**{name: row[name] for name in names})


def costs_of(
    application: str,
    window: int,
    nodes: float,
    posts_a_second: float,
    seen: Sequence[BatchObservation],
) -> Costs:
    """Return the costs that the batches show, in their order."""
    ran = [batch for batch in seen if batch.tasks]
    if not ran:
        raise ElastreamError("no batch was seen, so nothing is known of what it costs")
    operator = _heaviest(ran)
    quiet: list[BatchObservation] = []
    usual: dict[TaskId, list[float]] = {}
    came: list[TaskObservation] = []
    where: dict[TaskId, str] = {}
    for batch in ran:
        moved = [each for each in batch.tasks if where.get(each.task, "") != each.executor]
        if not moved and batch.rows:
            quiet.append(batch)
            for each in batch.tasks:
                usual.setdefault(each.task, []).append(each.run_ms)
        elif where:
            came += [each for each in moved if each.task in where]
        where.update((each.task, each.executor) for each in batch.tasks)
    if not quiet:
        raise ElastreamError("tasks moved in every batch, so it is not known what one costs")
    own = [[each for each in batch.tasks if each.task.operator == operator] for batch in quiet]
    rows = sum(batch.rows for batch in quiet)
    besides = [batch.duration_ms - _busiest(tasks) for batch, tasks in zip(quiet, own, strict=True)]
    load_ms, load_ms_per_mib = _line(
        [
            (each.state_bytes / _MIB, each.run_ms - median(usual[each.task]))
            for each in came
            if each.task in usual
        ]
    )
    return Costs(
        application,
        window,
        nodes,
        posts_a_second,
        sum(each.run_ms for tasks in own for each in tasks) / rows,
        max(0.0, median(besides)),
        load_ms,
        load_ms_per_mib,
        round(median(sum(each.state_bytes for each in tasks) for tasks in own)),
        len(came),
    )


def _heaviest(batches: Sequence[BatchObservation]) -> int:
    took: dict[int, float] = {}
    for batch in batches:
        for each in batch.tasks:
            took[each.task.operator] = took.get(each.task.operator, 0.0) + each.run_ms
    return max(took, key=lambda operator: took[operator])


def _busiest(tasks: Sequence[TaskObservation]) -> float:
    busy: dict[str, float] = {}
    for each in tasks:
        busy[each.executor] = busy.get(each.executor, 0.0) + each.run_ms
    return max(busy.values(), default=0.0)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return what a move takes, and what a MiB takes; neither below nothing."""
    if not points:
        return 0.0, 0.0
    mean = max(0.0, fmean(excess for _, excess in points))
    sizes = np.array([size for size, _ in points])
    if len(points) < _FEWEST_MOVES or np.ptp(sizes) == 0:
        return mean, 0.0
    slope, at_nothing = np.polyfit(sizes, [excess for _, excess in points], 1).tolist()
    if slope <= 0:
        return mean, 0.0
    if at_nothing < 0:
        through = sum(size * excess for size, excess in points) / float((sizes**2).sum())
        return 0.0, max(0.0, through)
    return at_nothing, slope
