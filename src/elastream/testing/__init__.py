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
- :func:`simulated`: the loop on it, under a policy; :class:`SimulatedLoop` has what was decided.

A handover:

- :class:`SimulatedHandover`: two applications and the network between them, playing a
  :class:`HandoverScenario`: a query, a stream of :class:`Row`, and what goes wrong.
- :func:`uninterrupted`: each :class:`Output` of the same query without a handover.

This list is all that is public; everything else may change.
"""

from elastream.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
