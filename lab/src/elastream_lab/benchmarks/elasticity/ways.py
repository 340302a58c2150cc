"""The ways to size an application that are compared: what session each needs, and what policy.

- ``fixed-min``, ``fixed-max``: the fewest and the most executors, all the time. Spark as it is.
- ``spark-dynamic``: Spark's own dynamic allocation, with nothing of elastream. It counts tasks that
  wait and executors that do nothing, with timeouts that suit a stream: tasks have waited for about
  a trigger, and an executor has done nothing for a few. One whose shuffle files are tracked without
  a timeout would stay until the driver's garbage is collected; so they have the same.
- ``elastream``: the loop, which follows the measured load.
- ``elastream-ahead``: the same, for the load that is expected when executors would be ready.
- ``elastream-spare``: the same with a warm executor in reserve, which counts as one of the most.

The three have one policy but for what their names say. It is quick, as a day of minutes needs it.
"""

from __future__ import annotations

from typing import Any, Final

from elastream.core.policy import Movement, Policy, Timeouts
from elastream.goals.utilisation import Utilisation
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
from elastream_lab.benchmarks.elasticity.settings import ElasticitySettings

_FIXED: Final = frozenset({"fixed-min", "fixed-max"})
_DYNAMIC: Final = "spark-dynamic"
_AHEAD: Final = "elastream-ahead"
_SPARE: Final = "elastream-spare"


def cluster_of(way: str, settings: ElasticitySettings) -> EmbeddedCluster:
    """Return the cluster on which a way runs."""
    low, high = settings.min_executors, settings.max_executors
    fixed = high if way == "fixed-max" else low
    return EmbeddedCluster(
        executors=fixed,
        max_executors=fixed if way in _FIXED else high,
        app_name=f"elastream bench elasticity: {way}",
        steered=way not in {*_FIXED, _DYNAMIC},
        config=_dynamic_allocation(settings) if way == _DYNAMIC else {},
    )


def policy_of(way: str, settings: ElasticitySettings) -> Policy | None:
    """Return the policy of a way; ``None`` for those without elastream."""
    if way in _FIXED or way == _DYNAMIC:
        return None
    ahead: dict[str, Any] = {"look_ahead_s": settings.look_ahead_s} if way == _AHEAD else {}
    return Policy(
        min_executors=settings.min_executors,
        max_executors=settings.max_executors,
        goal=Utilisation(target=0.6, hysteresis=0.1, catch_up_s=20.0, **ahead),
        cooldown_s=8.0,
        patience=2,
        timeouts=Timeouts(smoothing_s=4.0),
        tau=0.1,
        movement=Movement(moves_per_batch=3, settle_batches=1),
        spares=1 if way == _SPARE else 0,
    )


def executors_at_first(way: str, settings: ElasticitySettings) -> int:
    """Return how many executors there are before the load begins."""
    if way == _SPARE:
        return settings.min_executors + 1
    return settings.max_executors if way == "fixed-max" else settings.min_executors


def _dynamic_allocation(settings: ElasticitySettings) -> dict[str, str]:
    """Return Spark's settings; what is not here is as Spark has it."""
    allocation = "spark.dynamicAllocation"
    idle = f"{settings.idle_timeout_s}s"
    return {
        f"{allocation}.enabled": "true",
        f"{allocation}.shuffleTracking.enabled": "true",
        f"{allocation}.shuffleTracking.timeout": idle,
        f"{allocation}.initialExecutors": str(settings.min_executors),
        f"{allocation}.minExecutors": str(settings.min_executors),
        f"{allocation}.maxExecutors": str(settings.max_executors),
        f"{allocation}.schedulerBacklogTimeout": f"{settings.backlog_timeout_s}s",
        f"{allocation}.executorIdleTimeout": idle,
        "spark.executor.cores": "1",
    }
