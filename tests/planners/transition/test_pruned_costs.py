from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.planners.transition.exact import exact_values, projection_problems

from elastream.model.transition import ProjectionProblem
from elastream.planners.transition.ground import Ground
from elastream.planners.transition.partitions import all_partitions
from elastream.planners.transition.pruned_costs import PrunedCosts
from elastream.planners.transition.solving import in_memory_costs, solve
from elastream.planners.transition.values import unserved_size


@given(projection_problems())
@settings(max_examples=150, deadline=None)
def test_values_found_within_bounds_are_those_of_all_pairs(problem: ProjectionProblem) -> None:
    if unserved_size(problem) is not None:
        return
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    members = all_partitions(ground)
    pruned = solve(ground, members, PrunedCosts(ground, members, blocks=3)).values
    values = solve(ground, members, in_memory_costs(ground, members)).values
    assert pruned == pytest.approx(values, rel=1e-9, abs=1e-9 * max(ground.total_state, 1))
    exact = exact_values(problem)
    for place in range(len(members)):
        for state in range(len(values)):
            told = pruned[state, place] * ground.tick_bytes
            assert told == pytest.approx(exact[state, members.cut(place)], rel=1e-6, abs=1e-6)


@given(projection_problems())
@settings(max_examples=60, deadline=None)
def test_the_cheapest_of_some_members_is_found_though_single_steps_lead_elsewhere(
    problem: ProjectionProblem,
) -> None:
    if unserved_size(problem) is not None:
        return
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    every = all_partitions(ground)
    members = every.taken(np.arange(0, len(every), 2))
    stays = members.serves(ground)[ground.size_of_state]
    if not stays.any(axis=1).all():
        return
    later = np.where(stays, np.random.default_rng(0).random(stays.shape) * 10, np.inf)
    pruned, table = PrunedCosts(ground, members), in_memory_costs(ground, members)
    for _ in range(2):
        (chosen, paid), (successor, cost) = (
            pruned.cheapest(later, stays),
            table.cheapest(later, stays),
        )
        assert paid + np.take_along_axis(later, chosen, axis=1) == pytest.approx(
            cost + np.take_along_axis(later, successor, axis=1)
        )
