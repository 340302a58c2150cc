"""A month of three queries on a simulated cluster: the real loop, its log, its forecast.

Load goes up and down by the day, less at weekends, each query at another hour. Once a day an
executor dies. The loop looks ahead, keeps a spare, and writes its log, which rotates.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from math import cos, pi
from pathlib import Path
from typing import Final

from elastream import Movement, Policy, Timeouts, Utilisation
from elastream.core.decision_log import DecisionLog
from elastream.testing import ClusterSettings, SimulatedCluster, Workload, even_workload, simulated
from elastream_lab.studies.soak.measures import Sample, of_python

LEAST_DAYS: Final = 2.0
"""Fewer have too few samples for a verdict."""

_DAY_S: Final = 86_400.0
_SAMPLE_S: Final = 4 * 3600.0
_QUERIES: Final = 3
_TASKS: Final = 12
_TRIGGER_S: Final = 60.0
_STATUS_S: Final = 120.0
_MOST: Final = 10
_LOG_BYTES: Final = 1 << 20
_KEEP: Final = 2
_ENDS: Final = ("done", "abandon")


def month(days: float) -> Iterator[Sample]:
    """Yield a sample every four hours of this many days."""
    settings = ClusterSettings(
        executors=3, slots=_MOST, pool_s=60.0, status_s=_STATUS_S, copy_s=30.0, cold_ms=5000.0
    )
    cluster = SimulatedCluster([_query(number) for number in range(_QUERIES)], settings)
    policy = Policy(
        max_executors=_MOST,
        goal=Utilisation(target=0.6, look_ahead_s=300.0, zone="UTC"),
        spares=1,
        movement=Movement(moves_per_batch=4),
        timeouts=Timeouts(action_s=600.0),
    )
    with tempfile.TemporaryDirectory(prefix="elastream-soak-") as folder:
        scratch = Path(folder)
        log = scratch / "decisions.jsonl"
        written = DecisionLog(log, max_bytes=_LOG_BYTES, keep=_KEEP)
        changes = 0
        with simulated(cluster, policy, log=written.append) as loop:
            for number in range(round(days * _DAY_S / _SAMPLE_S)):
                cluster.advance(_SAMPLE_S)
                if number % round(_DAY_S / _SAMPLE_S) == 0:
                    cluster.kill(cluster.executors()[-1].id)
                changes += len(loop.of(*_ENDS))
                loop.decisions.clear()  # it keeps them for tests; an attachment does not
                yield Sample(cluster.now_ms / 3.6e6, changes, of_python(log, scratch))


def _query(number: int) -> Workload:
    return even_workload(
        _TASKS, _rate(number), name=f"q{number}", trigger_ms=1000 * _TRIGGER_S, row_ms=1.0
    )


def _rate(number: int) -> Callable[[float], float]:
    """Return rows a second by the second: a wave a day, flatter at weekends."""

    def rate(second: float) -> float:
        day = second / _DAY_S
        swing = 0.3 if int(day) % 7 >= 5 else 1.0
        return 900.0 - 800.0 * swing * cos(2 * pi * (day - number / 8))

    return rate
