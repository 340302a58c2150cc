"""Tools for tests: the real loop and the real handover, on clusters and streams that are simulated.

Nothing here needs Spark, a thread or a second of waiting, and the same test always ends the same.
The page ``docs/testing-a-policy.md`` shows how to use them::

    from elastream import Policy
    from elastream.testing import SimulatedCluster, even_workload, rate_steps, simulated

    def test_the_stream_is_given_more_executors_when_it_grows():
        cluster = SimulatedCluster(even_workload(24, rate_steps({0: 1000, 60: 2500})))
        with simulated(cluster, Policy(max_executors=8)) as loop:
            cluster.advance(180)
        assert loop.changes == ["scale-out"]

A cluster:

- :class:`SimulatedCluster`: executors and queries; time passes where a test lets it, and executors
  die, slow down or never come where a test says so. :class:`ClusterSettings` say what it is like.
- :class:`Workload`, of :class:`SimulatedTask`: a query and its stream; :func:`even_workload` makes
  one whose tasks are all alike, :func:`rate_steps` and :func:`rate_ramp` make its load.
- :func:`simulated`: the loop on it, under a policy; :class:`SimulatedLoop` tells what was decided.

A handover:

- :class:`SimulatedHandover`: two applications and the network between them, playing a
  :class:`HandoverScenario`: a query, a stream of :class:`Row`, and what goes wrong.
- :func:`uninterrupted`: each :class:`Output` of the same query where nobody hands it over.

This list is the whole public interface; everything else may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elastream.testing.cluster import ClusterSettings, SimulatedCluster
from elastream.testing.loop import SimulatedLoop, simulated
from elastream.testing.workload import (
    SimulatedTask,
    Workload,
    even_workload,
    rate_ramp,
    rate_steps,
)

if TYPE_CHECKING:
    from elastream.handover.testing.scenario import HandoverScenario as HandoverScenario
    from elastream.handover.testing.scenario import uninterrupted as uninterrupted
    from elastream.handover.testing.simulated_handover import SimulatedHandover as SimulatedHandover
    from elastream.handover.testing.windows import Output as Output
    from elastream.handover.testing.windows import Row as Row

_HANDOVER = {
    "HandoverScenario": "scenario",
    "Output": "windows",
    "Row": "windows",
    "SimulatedHandover": "simulated_handover",
    "uninterrupted": "scenario",
}
"""Names of the wing, which knows this package: each with its module there."""

__all__ = [
    "ClusterSettings",
    "HandoverScenario",
    "Output",
    "Row",
    "SimulatedCluster",
    "SimulatedHandover",
    "SimulatedLoop",
    "SimulatedTask",
    "Workload",
    "even_workload",
    "rate_ramp",
    "rate_steps",
    "simulated",
    "uninterrupted",
]

if not TYPE_CHECKING:  # else any name at all would be there for a type checker

    def __getattr__(name: str) -> Any:
        if name not in _HANDOVER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"elastream.handover.testing.{_HANDOVER[name]}")
        value = globals()[name] = getattr(module, name)
        return value
