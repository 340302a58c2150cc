"""The papers' 8 to 16 nodes on the simulated cluster, with costs measured on real executors.

As many posts a second and as much state for each node as the real executors had: their number is
what differs. Sizes, and how work and state lie on tasks, come from the days that are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from elastream.model.errors import ElastreamError
from elastream.model.observation import BatchObservation
from elastream.testing import ClusterSettings, SimulatedCluster, SimulatedTask, Workload, simulated
from elastream_lab.harness.commit_log import CommittedBatch
from elastream_lab.harness.made_posts import due_by
from elastream_lab.mechanisms.trace import Trace
from elastream_lab.studies.response.costs import Costs
from elastream_lab.studies.response.days import Days
from elastream_lab.studies.response.planning import Planning
from elastream_lab.studies.response.settings import ResponseStudy
from elastream_lab.studies.response.turns import (
    Case,
    Measured,
    Stage,
    by_hand,
    measured_turn,
    turn,
)

_LEAD_S: Final = 20.0
_REST_S: Final = 15.0
_LOOK_S: Final = 0.25
_MOST_LOOKS: Final = 4000


@dataclass(slots=True)
class _Rates:
    """Posts a second, from each moment on."""

    steps: list[tuple[float, float]] = field(default_factory=list)

    def change(self, at_ms: float, rate: float) -> None:
        self.steps.append((at_ms, rate))

    def at(self, second: float) -> float:
        return next((rate for ms, rate in reversed(self.steps) if ms <= 1000 * second), 0.0)

    def due_ms(self, end_ms: float) -> np.ndarray:
        """Return when each post has come up to a moment."""
        moments = [ms for ms, _ in self.steps] + [end_ms]
        spans = np.diff(moments) / 1000
        arrived = np.concatenate([[0.0], np.cumsum(spans * [rate for _, rate in self.steps])])
        return due_by(arrived, np.array(moments))


def run_simulated(
    study: ResponseStudy, costs: Costs, days: Days, planning: Planning, repeat: int
) -> Iterator[Measured]:
    """Yield what every migration of one run came to."""
    sizes, most = days.run(repeat, study.migrations), days.sizes[-1]
    rates = _Rates()
    a_node = costs.posts_a_second / costs.nodes
    rates.change(0.0, sizes[0] * a_node)
    cluster = SimulatedCluster(
        _workload(days, costs, rates),
        ClusterSettings(
            executors=most,
            slots=most,
            load_ms=costs.load_ms,
            load_ms_per_mib=costs.load_ms_per_mib,
        ),
    )
    seen: list[BatchObservation] = []
    with simulated(cluster, by_hand(most)) as loop:

        def wait_until(at_ms: float) -> None:
            seen.extend(cluster.advance(max(0.0, at_ms - cluster.now_ms) / 1000))

        def settle() -> None:
            for _ in range(_MOST_LOOKS):
                if loop.wait(0):
                    return
                seen.extend(cluster.advance(_LOOK_S))
            raise ElastreamError(f"a change did not end:\n{loop.story}")

        stage = Stage(
            loop,
            lambda: cluster.now_ms,
            settle,
            wait_until,
            lambda size: rates.change(cluster.now_ms, size * a_node),
        )
        wait_until(1000 * _LEAD_S)
        turned = list(turn(stage, planning, sizes, study.seconds, _REST_S))
    trace = _trace(seen, rates, cluster.now_ms)
    case = Case(costs.application, costs.window, repeat)
    for each in turned:
        if (made := measured_turn(case, trace, each, study.seconds)) is not None:
            yield made


def _workload(days: Days, costs: Costs, rates: _Rates) -> Workload:
    state = costs.state_bytes / costs.nodes * (days.sizes[0] + days.sizes[-1]) / 2
    tasks = tuple(
        SimulatedTask(0, task, work, costs.post_ms, round(state * share))
        for task, (work, share) in enumerate(zip(days.loads.work, days.loads.state, strict=True))
    )
    return Workload(tasks, rates.at, overhead_ms=costs.overhead_ms)


def _trace(seen: Sequence[BatchObservation], rates: _Rates, end_ms: float) -> Trace:
    batches, start = [], 0
    for batch in seen:
        end = start + batch.rows
        finished = float(batch.finished_at_ms)
        began = finished - batch.duration_ms
        batches.append(CommittedBatch(batch.batch, start, end, began, finished))
        start = end
    due = rates.due_ms(end_ms + 1000)
    return Trace(tuple(batches), {batch.batch: batch for batch in seen}, due, 0.0, 0)
