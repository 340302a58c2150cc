"""The ways to live with the loss of an executor: what session each needs, and what policy.

- ``stock``: Spark as it is, with none of the settings that steering needs. Its master starts
  another executor by itself. The tasks of the lost one load their state wherever a core is free,
  and stay there: the new executor has nothing to do.
- ``elastream``: the loop, bound to as many executors as there are. When one is lost it warms the
  one that comes in its place, and moves tasks to it.
- ``standbys``: the same, and every task has a copy of its state on another executor, which follows
  every batch. When an executor is lost its tasks go where the copies are.

The two have one policy but for what their names say. Its goal keeps the number of executors and
does nothing about the load: no executor can be busier than it allows. By hand nothing would be done
about a loss.
"""

from __future__ import annotations

from typing import Final

from elastream.core.policy import Policy
from elastream.goals.utilisation import Utilisation
from elastream_lab.benchmarks.failure.settings import FailureSettings
from elastream_lab.benchmarks.migration.bench import SOON_UPLOADED
from elastream_lab.benchmarks.migration.mechanisms import MOVEMENTS
from elastream_lab.mechanisms.sessions import StreamCluster

_NUMBER_ALONE: Final = Utilisation(target=0.9, hysteresis=0.1)


def cluster_of(way: str, settings: FailureSettings) -> StreamCluster:
    """Return the cluster on which a way runs."""
    return StreamCluster(
        executors=settings.executors,
        max_executors=settings.executors,
        executor_memory_mb=settings.stream.executor_memory_mb,
        steered=way != "stock",
        config=SOON_UPLOADED,
    )


def policy_of(way: str, settings: FailureSettings) -> Policy | None:
    """Return the policy of a way; ``None`` for Spark as it is."""
    if way == "stock":
        return None
    return Policy(
        min_executors=settings.executors,
        max_executors=settings.executors,
        tau=settings.stream.tau,
        goal=_NUMBER_ALONE,
        standbys=1 if way == "standbys" else 0,
        movement=MOVEMENTS["live"],
    )
