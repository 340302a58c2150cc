from __future__ import annotations

import json
from collections import Counter

from elastream_lab.campaign.drawing import draw
from elastream_lab.campaign.policies import policy_of
from elastream_lab.campaign.scenario import FAULTS, PHASES, Scenario
from elastream_lab.campaign.shapes import SHAPES

MANY = [draw(3, number) for number in range(300)]


def test_the_same_seed_and_number_draw_the_same_scenario() -> None:
    assert [draw(3, number) for number in range(300)] == MANY
    assert draw(4, 0) != draw(3, 0)


def test_a_scenario_is_the_same_after_it_was_written() -> None:
    assert [Scenario.from_json(json.dumps(each.as_json())) for each in MANY] == MANY


def test_every_shape_fault_and_phase_is_drawn() -> None:
    assert {query.shape for each in MANY for query in each.queries} == SHAPES.keys()
    assert {fault.kind for each in MANY for fault in each.faults} == set(FAULTS)
    assert {fault.phase for each in MANY for fault in each.faults} == set(PHASES)


def test_every_policy_is_one_that_the_loop_takes() -> None:
    for each in MANY:
        policy = policy_of(each)
        sizes = [r.request.executors for r in each.rounds if r.request is not None]
        wanted = [each.executors, *(size for size in sizes if size is not None)]
        assert all(1 <= size <= policy.max_executors - policy.spares for size in wanted)


def test_what_needs_rocksdb_has_it() -> None:
    stores = Counter(
        each.store for each in MANY for q in each.queries if SHAPES[q.shape].needs_rocksdb
    )
    assert "hdfs" not in stores
    assert stores
