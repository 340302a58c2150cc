from __future__ import annotations

import heapq
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, groupby, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import staged_problems, step_problems

from elastream.model.batch import Limits, Spread
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import step_plan
from elastream.placement import even_spread
from elastream.placement.even_spread import (
    attainable,
    attainable_tau,
    even_bounds,
    even_max_load,
    even_placement,
)

works = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.3, 1.0, 2.5]), min_size=1, max_size=7)
any_works = st.one_of(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.7]), min_size=1, max_size=40),
    st.lists(st.floats(0, 1e9), min_size=1, max_size=40),
)


def lightest_intervals(work: list[float], nodes: int) -> float:
    if nodes > len(work) + 2:
        return max(work)
    return min(
        max(sum(work[lb:ub]) for lb, ub in pairwise((0, *cuts, len(work))))
        for cuts in combinations(range(len(work) + 1), nodes - 1)
    )


def lightest_spread(work: list[float], nodes: int) -> float:
    return min(
        max(
            sum(w for w, at in zip(work, spread, strict=True) if at == node)
            for node in range(nodes)
        )
        for spread in product(range(nodes), repeat=len(work))
    )


def plainly_piled(work: Sequence[float], nodes: int) -> float:
    """Longest processing time first, as one would write it down."""
    loads = [0.0] * nodes
    for amount in sorted(work, reverse=True):
        heapq.heapreplace(loads, loads[0] + amount)
    return max(loads)


def plainly_cut(work: Sequence[float], nodes: int) -> list[int]:
    """The intervals that a fill makes under the lightest limit that needs no more nodes."""
    limits = sorted({sum(work[lb:ub]) for lb, ub in combinations(range(len(work) + 1), 2)})
    return next(
        bounds
        for limit in limits
        if limit >= max(work) and len(bounds := plainly_filled(work, limit)) <= nodes + 1
    )


def plainly_filled(work: Sequence[float], limit: float) -> list[int]:
    bounds, load = [0], 0.0
    for task, amount in enumerate(work):
        if load + amount > limit and task > bounds[-1]:
            bounds.append(task)
            load = 0.0
        load += amount
    return [*bounds, len(work)]


@given(works, st.integers(1, 4))
@settings(max_examples=400)
def test_intervals_are_as_even_as_intervals_can_be(work: list[float], nodes: int) -> None:
    bounds = even_bounds(work, nodes)
    assert bounds[0] == 0
    assert bounds[-1] == len(work)
    assert bounds == sorted(bounds)
    assert len(bounds) - 1 <= nodes
    found = even_max_load(work, nodes, contiguous=True)
    assert found == pytest.approx(lightest_intervals(work, nodes))


@given(works.filter(lambda work: len(work) <= 6), st.integers(1, 3))
@settings(max_examples=200)
def test_a_free_spread_is_within_a_third_of_the_best(work: list[float], nodes: int) -> None:
    best = lightest_spread(work, nodes)
    found = even_max_load(work, nodes, contiguous=False)
    assert best - 1e-9 <= found <= best * 4 / 3 + 1e-9


@given(any_works, st.integers(1, 12))
@settings(max_examples=400)
def test_it_does_what_the_plain_way_of_doing_it_does(work: list[float], nodes: int) -> None:
    bounds = even_bounds(work, nodes)
    assert bounds == plainly_cut(work, nodes)
    fullest = max(sum(work[lb:ub]) for lb, ub in pairwise(bounds))
    assert even_max_load(work, nodes, contiguous=True) == pytest.approx(fullest, rel=1e-14)
    assert even_max_load(work, nodes, contiguous=False) == plainly_piled(work, nodes)


@given(any_works, st.integers(1, 12))
@settings(max_examples=100)
def test_the_plain_and_the_compiled_kernels_do_the_same(work: list[float], nodes: int) -> None:
    loads, limit = np.array(work, dtype=np.float64), 1.5 * sum(work) / nodes
    rising = np.sort(loads)
    found = []
    for fill, pile in (
        (even_spread._fill.plain, even_spread._pile.plain),
        (even_spread._fill.compiled, even_spread._pile.compiled),
    ):
        bounds = np.zeros(nodes + 1, dtype=np.int64)
        first, later = rising[-nodes:].copy(), rising[:-nodes][::-1]
        found.append((fill(loads, limit, bounds), bounds.tolist(), pile(first, later)))
    assert found[0] == found[1]


@pytest.mark.parametrize("contiguous", [False, True])
def test_many_tasks_are_spread_as_the_plain_way_spreads_them(contiguous: bool) -> None:
    work = np.random.default_rng(3).random(4000).tolist()
    found = even_max_load(work, 200, contiguous=contiguous)
    if contiguous:
        bounds = even_bounds(work, 200)
        assert found == max(sum(work[lb:ub]) for lb, ub in pairwise(bounds))
        assert bounds == plainly_filled(work, found)
        assert len(plainly_filled(work, np.nextafter(found, 0))) - 1 > 200
    else:
        assert found == plainly_piled(work, 200)


def test_six_equal_tasks_on_four_nodes_leave_two_on_one() -> None:
    assert even_max_load([1.0] * 6, 4, contiguous=False) == 2
    assert even_max_load([1.0] * 6, 4, contiguous=True) == 2


def test_no_tasks_load_no_node() -> None:
    assert even_bounds([], 3) == [0, 0]
    assert even_max_load([], 3, contiguous=True) == 0
    assert even_max_load([], 3, contiguous=False) == 0


def test_a_few_tasks_need_no_compiler() -> None:
    code = (
        "import sys; from elastream.placement.even_spread import even_max_load;"
        "even_max_load([1.0, 2.0] * 50, 7, contiguous=True);"
        "even_max_load([1.0, 2.0] * 50, 7, contiguous=False);"
        "print('numba' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"


@given(step_problems(), st.booleans())
def test_a_plain_problem_gets_the_attainable_threshold(
    problem: StepProblem, contiguous: bool
) -> None:
    work = tuple(map(float, problem.work))
    tau = attainable_tau(work, problem.target.nodes, problem.target.tau, contiguous=contiguous)
    assert attainable(problem, contiguous=contiguous).target.tau == tau


@given(staged_problems(max_tasks=12, max_nodes=5), st.booleans())
def test_an_even_placement_keeps_the_limits_that_are_attainable(
    problem: StepProblem, contiguous: bool
) -> None:
    problem = replace(problem, memory=(), lasting=frozenset(), seats=())
    if problem.plain:
        return
    wider = attainable(problem, contiguous=contiguous)
    before, after = Limits.of(problem), Limits.of(wider)
    assert replace(wider, target=problem.target, most_batch=(), most_busy=None) == replace(
        problem, most_batch=(), most_busy=None
    )
    assert all(a >= b for a, b in zip(after.batches, before.batches, strict=True))
    assert all(a >= b for a, b in zip(after.stages, before.stages, strict=True))
    assert after.busiest >= before.busiest
    ways = [even_placement(problem, contiguous=contiguous)]
    if not contiguous:
        ways.append(problem.current.nodes_of_tasks)
    assert any(step_plan(wider, way).status != "unbalanced" for way in ways)
    if contiguous:
        for stage in set(problem.stages):
            nodes = [n for n, s in zip(ways[0], problem.stages, strict=True) if s == stage]
            assert len([1 for _ in groupby(nodes)]) == len(set(nodes))


def test_limits_that_are_kept_now_or_by_light_tasks_are_unchanged() -> None:
    light = StepProblem.of_stages([1] * 40, [1] * 40, [0] * 40, 4, 0.3, stages=[0] * 20 + [1] * 20)
    assert attainable(light) is light
    heavy = StepProblem.of_stages([4, 1, 2, 2], [1] * 4, [0, 1, 0, 1], 2, 0.5, stages=[0, 0, 1, 1])
    assert attainable(heavy) is heavy
    assert attainable(replace(heavy, target=Target(2, 0.1))).target.tau == pytest.approx(1 / 3)


def test_memory_is_kept_where_the_work_can_be_spread_all_the_same() -> None:
    problem = StepProblem.of_stages(
        [3, 3, 1, 1], [5, 5, 1, 1], [0] * 4, 2, 0, stages=[0, 0, 1, 1], memory=[5, 7]
    )
    assert sorted(even_placement(problem)) == [0, 1, 1, 1]


def test_no_node_is_busier_than_it_must_be_where_a_heavy_task_breaks_its_querys_limit() -> None:
    """Stage by stage, the heavy task would share its node with one of another query."""
    work = [0.9, 0.1, 0.1, 0.4, 0.4, 0.4, 0.3]
    stages = [0, 0, 0, 1, 1, 1, 1]
    one = StepProblem.of_stages(work, [0] * 7, [0] * 7, 3, 0.2, stages=stages)
    problem = replace(one, queries=(0, 1), most_busy=0.95)
    spread = Spread.of(problem, even_placement(problem))
    assert spread.busiest == pytest.approx(0.9)
