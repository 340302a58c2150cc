"""State sent between hosts of limited bandwidth: whole, and no quicker than its links."""

from __future__ import annotations

import pytest

from elastream.model.migration import StepProblem
from elastream_lab.hosts.namespaces import why_not
from elastream_lab.studies.transfer.migrations import planned
from elastream_lab.studies.transfer.movers import movers
from elastream_lab.studies.transfer.ways import WAYS, estimated_s

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no hosts here: {why_not()}")

RATE = 1e6


def test_state_arrives_whole_and_no_sooner_than_links_allow_either_way() -> None:
    problem = StepProblem.of([1] * 8, [300_000] * 8, [[0, 4], [4, 8]], 4, 0.0)
    migration = planned("2 to 4", problem)
    with movers(migration.nodes, RATE) as ready:
        for way in WAYS:
            # the first bytes of a link that has rested go at once
            assert ready.measured_s(migration, way) >= 0.8 * estimated_s(migration, way, RATE)
