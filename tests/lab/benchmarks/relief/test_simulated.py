"""A batch that was seen, on the simulated cluster."""

from __future__ import annotations

import pytest
from tests.lab.benchmarks.relief.test_figures import batch

from elastream.model.observation import OperatorGraph
from elastream_lab.benchmarks.relief.simulated import simulated_batch_ms

CHAIN = {"q": OperatorGraph({0: 1, 1: None})}


@pytest.mark.parametrize(("slots", "takes"), [(1, 700), (2, 500)])
def test_stages_run_one_after_the_other_where_the_change_left_them(
    slots: int, takes: float
) -> None:
    before = {"q": [batch({0: "aabb", 1: "aabb"}, duration_ms=300 + 400 / slots)]}
    after = {"q": [batch({0: "aabb", 1: "aacd"})]}
    simulated = simulated_batch_ms(before, after, CHAIN, slots, 4)
    assert simulated["q"] == pytest.approx(takes, abs=10)


def test_queries_compete_for_their_slots() -> None:
    before = {
        name: [batch({0: "aabb"}, query=name, duration_ms=410, waited_ms=200)] for name in "pq"
    }
    graphs = dict.fromkeys("pq", OperatorGraph({0: None}))
    simulated = simulated_batch_ms(before, before, graphs, 1, 2)
    assert all(400 <= ms <= 420 for ms in simulated.values())
