"""Tools for tests: the loop's ports on a simulated cluster, for sizes and accidents no laptop has.

::

    from elastream.testing import SimulatedCluster, even_workload, simulated

    cluster = SimulatedCluster(even_workload(24, lambda second: 1000 if second < 30 else 2500))
    with simulated(cluster, policy, log=decisions.append):
        cluster.run_batches(60)
"""

from elastream.testing.cluster import ClusterSettings, SimulatedCluster
from elastream.testing.loop import simulated
from elastream.testing.workload import SimulatedTask, Workload, even_workload

__all__ = [
    "ClusterSettings",
    "SimulatedCluster",
    "SimulatedTask",
    "Workload",
    "even_workload",
    "simulated",
]
