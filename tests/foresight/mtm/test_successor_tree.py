from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.foresight.mtm.exact import exact_values, projection_problems

from elastream.foresight.mtm.ground import Flags, Ground
from elastream.foresight.mtm.partitions import Partitions, all_partitions
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.runner import Runner
from elastream.foresight.mtm.solving import solve
from elastream.foresight.mtm.successor_tree import SuccessorTree
from elastream.foresight.mtm.values import even_cuts
from elastream.foresight.ssm.interval_gain import Floats
from elastream.model.plan import Infeasible
from elastream.placement.kernel import Kernel
from elastream_lab.studies.projected_cost.figure_six import all_pair_costs


def least_of_all_pairs(ground: Ground, members: Partitions, later: Floats, stays: Flags) -> Floats:
    costs = all_pair_costs(ground, members)
    least = np.array([(costs + row).min(axis=1) for row in later])
    found: Floats = np.where(stays, later, least)
    return found


@given(projection_problems())
@settings(max_examples=150, deadline=None)
def test_values_found_in_the_tree_are_exact(problem: ProjectionProblem) -> None:
    if isinstance(even_cuts(problem), Infeasible):
        return
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    members = all_partitions(ground)
    searched = solve(ground, members, Runner()).values
    exact = exact_values(problem)
    for place in range(len(members)):
        for state in range(len(searched)):
            reports = searched[state, place] * ground.tick_bytes
            assert reports == pytest.approx(exact[state, members.cut(place)], rel=1e-6, abs=1e-6)


@given(projection_problems())
@settings(max_examples=60, deadline=None)
def test_the_cheapest_of_some_members_is_found_though_better_ones_are_not_among_them(
    problem: ProjectionProblem,
) -> None:
    if isinstance(even_cuts(problem), Infeasible):
        return
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    every = all_partitions(ground)
    members = every.taken(np.arange(0, len(every), 2))
    stays = members.serves(ground)[ground.size_of_state]
    if not stays.any(axis=1).all():
        return
    later = np.where(stays, np.random.default_rng(0).random(stays.shape) * 10, np.inf)
    searched = SuccessorTree(ground, members, Runner())
    for _ in range(2):
        chosen, paid = searched.cheapest(later, stays)
        found = paid + np.take_along_axis(later, chosen, axis=1)
        assert found == pytest.approx(least_of_all_pairs(ground, members, later, stays))


@given(projection_problems())
@settings(max_examples=40, deadline=None)
def test_the_plain_and_the_compiled_search_do_the_same(problem: ProjectionProblem) -> None:
    if isinstance(even_cuts(problem), Infeasible):
        return
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    members = all_partitions(ground)
    stays = members.serves(ground)[ground.size_of_state]
    later = np.where(stays, np.random.default_rng(0).random(stays.shape) * 10, np.inf)
    found = []
    for choice in ("plain", "compiled"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                Kernel, "for_operations", lambda self, _, which=choice: getattr(self, which)
            )
            chosen, cost = SuccessorTree(ground, members, Runner()).cheapest(later, stays)
        found.append((chosen.tolist(), cost.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(3))
def test_among_thousands_the_search_finds_what_a_look_at_every_pair_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    work, state = random.integers(5, 30, size=(2, 40)).tolist()
    odds = random.random((4, 4))
    chain = MigrationChain.of([5, 6, 7, 8], odds / odds.sum(axis=1, keepdims=True), 0.9)
    ground = Ground.of(tuple(work), tuple(state), 0.25, chain)
    members = all_partitions(ground)
    assert 2000 < len(members) < 20_000
    members = members.taken(np.sort(random.permutation(len(members))[:2500]))
    stays = members.serves(ground)[ground.size_of_state]
    runner = Runner()
    runner.parts = 3
    tree = SuccessorTree(ground, members, runner)
    for weight in (0, 10, 100):
        later = np.where(stays, random.random(stays.shape) * weight, np.inf)
        chosen, paid = tree.cheapest(later, stays)
        best = least_of_all_pairs(ground, members, later, stays)
        assert np.array_equal(paid + np.take_along_axis(later, chosen, axis=1), best)
