"""Runs for a page: of a simulated loop, as it goes on or as its log shows it."""

from __future__ import annotations

from pathlib import Path

from elastream import Policy
from elastream.page.run import Run
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedLoop,
    even_workload,
    rate_steps,
    simulated,
)

__all__ = ["begun", "logged"]


def begun(
    run: Run | None = None, *, log: Path | None = None, policy: Policy | None = None
) -> tuple[SimulatedCluster, SimulatedLoop]:
    """Return a cluster and its loop, which a page or a log learns of; not started yet."""
    cluster = SimulatedCluster(
        [even_workload(12, rate_steps({0: 1000, 20: 2500}), name="orders")],
        ClusterSettings(pool_s=2.0, copy_s=1.0),
    )
    loop = simulated(cluster, policy or Policy(max_executors=4, standbys=1), log=log)
    if run is not None:
        loop.add_log(run.take)
    return cluster, loop


def logged(path: Path, *, seconds: float = 90.0, detach: bool = True) -> SimulatedLoop:
    """Write the log of a run that scales out."""
    cluster, loop = begun(log=path)
    loop.start()
    cluster.advance(seconds)
    if detach:
        loop.detach()
    return loop
