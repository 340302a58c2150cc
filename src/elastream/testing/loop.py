"""The real loop on a simulated cluster: everything happens where it is asked for, one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from elastream.loop.decision_log import LogWriter, log_writer
from elastream.loop.decisions import Decision
from elastream.loop.driver import Controller
from elastream.loop.lanes import Inline
from elastream.loop.learning import Learning
from elastream.loop.policy import Policy
from elastream.loop.ports import DelayProbe, Learner, Runtime
from elastream.testing.cluster import SimulatedCluster

__all__ = ["simulated"]


def simulated(
    cluster: SimulatedCluster,
    policy: Policy,
    *,
    log: Path | str | Callable[[Decision], None] | None = None,
    probe: DelayProbe | None = None,
    learner: Learner | None = None,
    learning: Learning | None = None,
) -> Controller:
    """Return a controller of the cluster, for a ``with`` block or its ``start``.

    ``log`` is as for ``attach``: a file's path, or a function. Its clock is the cluster's; what
    would take its time on a real one happens at once.
    """
    writer: LogWriter = log_writer(log)
    return Controller(
        Runtime(cluster, cluster, cluster, probe, learner),
        policy,
        writer,
        learning=learning,
        lanes=lambda _name, _stuck: Inline(),
        clock=lambda: cluster.now_ms / 1000,
        ticks=False,
    )
