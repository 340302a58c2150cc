from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.foresight.mtm.exact import cuts, moved, projection_problems

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.neighbourhood import fill_targets, shifts, targets
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.pricing import cheapest_of_pool, pair_costs
from elastream.foresight.mtm.problem import ProjectionProblem
from elastream.foresight.ssm.interval_gain import Held


def ground_of(problem: ProjectionProblem) -> Ground:
    return Ground.of(problem.work, problem.state, problem.tau, problem.chain)


@given(projection_problems(), st.data())
@settings(max_examples=250)
def test_targets_are_the_cheapest_of_each_number_of_intervals_under_each_limit(
    problem: ProjectionProblem, data: st.DataObject
) -> None:
    ground = ground_of(problem)
    here = data.draw(st.sampled_from(list(cuts(ground.tasks))))
    size = data.draw(st.none() | st.integers(0, len(ground.sizes) - 1))
    found = [
        tuple(dict.fromkeys(row)) for row in targets(ground, np.array(here), size=size).tolist()
    ]
    expected = []
    for limit, most in zip(ground.limits[size:], ground.sizes[size:], strict=True):
        allowed = int(most if size is None else ground.sizes[size])
        for count in range(1, allowed + 1):
            costs = [
                moved(problem.state, here, cut)
                for cut in cuts(ground.tasks)
                if len(cut) - 1 == count
                and max(ground.work[ub] - ground.work[lb] for lb, ub in pairwise(cut)) <= limit
            ]
            expected += [(count, min(costs))] if costs else []
    costs_found = [(len(cut) - 1, moved(problem.state, here, cut)) for cut in found]
    assert len(costs_found) == len(expected)
    for (count, cost), (wanted, least) in zip(costs_found, expected, strict=True):
        assert count == wanted
        assert abs(cost - least) < 1e-9


@given(projection_problems(), st.data())
@settings(max_examples=150)
def test_shifts_differ_in_one_bound(problem: ProjectionProblem, data: st.DataObject) -> None:
    ground = ground_of(problem)
    here = data.draw(st.sampled_from(list(cuts(ground.tasks))))
    for row in shifts(ground, np.array(here)).tolist():
        cut = tuple(dict.fromkeys(row))
        assert list(cut) == sorted(cut)
        assert (cut[0], cut[-1]) == (0, ground.tasks)
        assert len(set(here) - set(cut)) == 1
        assert len(set(cut) - set(here)) <= 1


@given(projection_problems())
@settings(max_examples=40)
def test_plain_and_compiled_kernels_do_the_same(problem: ProjectionProblem) -> None:
    ground = ground_of(problem)
    pool = Partitions.of_cuts(cuts(ground.tasks), ground)
    sums, count = pool.state_sums(ground), len(pool)
    plain, compiled = np.zeros((2, count, count))
    pair_costs.plain(sums, pool.counts, sums, pool.counts, plain)
    pair_costs.compiled(sums, pool.counts, sums, pool.counts, compiled)
    assert np.array_equal(plain, compiled)
    serves = pool.serves(ground)
    later = np.where(serves, np.arange(count) % 5, np.inf)
    tableless = np.zeros((2, *serves.shape))
    for kernel_, out in zip(
        (cheapest_of_pool.plain, cheapest_of_pool.compiled), tableless, strict=True
    ):
        kernel_(sums, pool.counts, sums, pool.counts, later, serves, out)
    assert np.array_equal(tableless[0], tableless[1])
    least = np.array([(plain + row).min(axis=1) for row in later])
    assert np.array_equal(tableless[0][~serves], least[~serves])
    cut = np.array([0, ground.tasks])
    block = np.zeros(ground.tasks, dtype=np.int64)
    most = np.minimum(ground.sizes, ground.tasks)
    rows = np.zeros((2, int(most.sum()), ground.width), dtype=np.int64)
    args = (ground.work, Held(ground.state, cut, block), ground.limits, most)
    assert fill_targets.plain(*args, rows[0]) == fill_targets.compiled(*args, rows[1])
    assert np.array_equal(rows[0], rows[1])
