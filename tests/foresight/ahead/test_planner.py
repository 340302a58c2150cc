from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.foresight.mtm.exact import chains
from tests.strategies import taus

from elastream.foresight.ahead.bound import least_total
from elastream.foresight.ahead.futures import LookAhead, ahead_of
from elastream.foresight.ahead.lazy_steps import lazy_step
from elastream.foresight.ahead.planner import FreeAheadPlanner, free_ahead
from elastream.foresight.ahead.problem import FreeAheadPlan, FreeAheadProblem, Future, PastWork
from elastream.foresight.mtm.problem import MigrationChain
from elastream.model.errors import ProblemError
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, Target, exact_sum
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream.placement.free_step.planner import free_step

NODES = 3
FEW = LookAhead(futures=8, migrations=3, candidates=12)
CHAIN = MigrationChain.of(
    [3, 4, 5, 6], [[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 1, 0]], 0.8
)


@st.composite
def steps(draw: st.DrawFn) -> StepProblem:
    tasks = draw(st.integers(1, 4))
    numbers = st.lists(st.integers(0, 7), min_size=tasks, max_size=tasks)
    nodes = draw(st.lists(st.integers(0, NODES - 1), min_size=tasks, max_size=tasks))
    return StepProblem.of(
        draw(numbers), draw(numbers), nodes, draw(st.integers(1, NODES)), draw(taus)
    )


@st.composite
def futures(draw: st.DrawFn) -> tuple[Future, ...]:
    count = draw(st.integers(1, 3))
    target = st.tuples(st.integers(1, NODES), taus)
    return tuple(
        Future.of(1 / count, draw(st.lists(target, min_size=1, max_size=3))) for _ in range(count)
    )


@cache
def placements(tasks: int) -> NDArray[np.int64]:
    """Every node for every task: nodes have names here, and no matching is needed."""
    return np.array(list(product(range(NODES), repeat=tasks)))


def serving(step: StepProblem, target: Target) -> NDArray[np.bool_]:
    placed = placements(len(step.work))
    held = placed[None] == np.arange(NODES)[:, None, None]
    limit = target.limit(exact_sum(step.work)) * (1 + LOAD_TOLERANCE)
    light = (held @ np.array(step.work)).max(axis=0) <= limit
    return np.asarray(light & (held.any(axis=2).sum(axis=0) <= target.nodes))


def between(step: StepProblem) -> NDArray[np.float64]:
    placed = placements(len(step.work))
    return np.asarray((placed[:, None] != placed[None]) @ np.array(step.state, dtype=np.float64))


def exhaustive(step: StepProblem, later: NDArray[np.float64]) -> float:
    """Return the least cost now and later over all placements that serve."""
    placed = placements(len(step.work))
    now = (placed != np.array(step.current.nodes_of_tasks)) @ np.array(step.state, dtype=np.float64)
    return float((now + later)[serving(step, step.target)].min())


def total(problem: FreeAheadProblem, plan: FreeAheadPlan) -> float:
    return float(plan.step.cost) + problem.gamma * plan.projected


@given(steps(), futures(), st.sampled_from([0, 0.5, 0.8, 1]))
@settings(max_examples=500)
def test_with_given_futures_it_equals_exhaustive_search(
    step: StepProblem, given_futures: tuple[Future, ...], gamma: float
) -> None:
    problem = FreeAheadProblem.of_futures(step, given_futures, gamma)
    plan = free_ahead(problem)
    if isinstance(plan, Infeasible):
        assert not serving(step, step.target).any()
        return
    assert certify_step(step, plan.step).faults == ()
    targets = {target for future in given_futures for target in future.targets}
    if not all(serving(step, target).any() for target in targets):
        assert plan.status == "feasible"
        return
    cost = between(step)
    later = np.zeros(len(cost))
    for future in given_futures:
        onward = np.zeros(len(cost))
        for target in reversed(future.targets):
            fits = serving(step, target)
            onward = (cost[:, fits] + gamma * onward[fits]).min(axis=1)
        later += future.odds * onward
    assert plan.status == "optimal"
    assert total(problem, plan) == pytest.approx(exhaustive(step, gamma * later), abs=1e-9)


@given(steps(), st.data())
@settings(max_examples=500)
def test_with_a_chain_it_equals_exhaustive_value_iteration(
    step: StepProblem, data: st.DataObject
) -> None:
    chain = data.draw(chains(step.target.nodes, NODES))
    problem = FreeAheadProblem.of_chain(step, chain)
    plan = free_ahead(problem)
    reached = [chain.sizes[z] for z in chain.reachable(problem.state)]
    fits = {size: serving(step, Target(size, step.target.tau)) for size in chain.sizes}
    if isinstance(plan, Infeasible) or not all(fits[size].any() for size in reached):
        assert isinstance(plan, Infeasible) or plan.status == "feasible"
        return
    assert plan.status == "optimal"
    cost = between(step)
    states = chain.reachable(problem.state)
    odds = np.array([[chain.matrix[z][y] for y in states] for z in states])
    values = np.zeros((len(states), len(cost)))
    for _ in range(400 if chain.gamma else 1):
        onward = [
            (cost[:, fits[chain.sizes[z]]] + chain.gamma * value[fits[chain.sizes[z]]]).min(axis=1)
            for z, value in zip(states, values, strict=True)
        ]
        change = np.abs(odds @ np.array(onward) - values).max()
        values = odds @ np.array(onward)
        if change < 1e-12:
            break
    later = chain.gamma * values[states.index(problem.state)]
    assert total(problem, plan) == pytest.approx(exhaustive(step, later), rel=1e-7, abs=1e-7)


@st.composite
def larger_steps(draw: st.DrawFn) -> StepProblem:
    tasks = draw(st.integers(12, 24))
    numbers = st.lists(st.integers(1, 9), min_size=tasks, max_size=tasks)
    nodes = draw(st.lists(st.integers(0, 4), min_size=tasks, max_size=tasks))
    size = draw(st.sampled_from([3, 4, 5, 6]))
    return StepProblem.of(
        draw(numbers), draw(numbers), nodes, size, draw(st.sampled_from([0.4, 0.8]))
    )


@given(larger_steps())
@settings(max_examples=60)
def test_where_not_all_are_listed_it_keeps_its_bounds(step: StepProblem) -> None:
    problem = FreeAheadProblem.of_chain(step, CHAIN)
    plan = free_ahead(problem, look=FEW)
    free = free_step(step, effort=0)
    assert isinstance(plan, FreeAheadPlan)
    assert isinstance(free, StepPlan)
    assert plan.status == "feasible"
    assert certify_step(step, plan.step).faults == ()
    assert plan.free_cost == free.cost
    assert plan.step.cost <= plan.most_cost <= free.cost + 0.05 * sum(step.state) + 1e-9
    ahead = ahead_of(problem, FEW)
    state = np.array(step.state, dtype=np.float64)
    by_free_step = ahead.costs(state, np.array(free.assignment.nodes_of_tasks), 0.8).mean()
    assert total(problem, plan) <= free.cost + 0.8 * by_free_step + 1e-9
    least, error = least_total(problem, FEW, free.lower_bound)
    assert least <= total(problem, plan) + 4 * (error + plan.standard_error) + 1e-9
    assert free_ahead(problem, look=FEW) == plan


@given(steps(), futures())
@settings(max_examples=300)
def test_the_bound_is_below_the_optimum(
    step: StepProblem, given_futures: tuple[Future, ...]
) -> None:
    problem = FreeAheadProblem.of_futures(step, given_futures, 0.8)
    plan = free_ahead(problem)
    if isinstance(plan, FreeAheadPlan) and plan.status == "optimal":
        free = free_step(step)
        assert isinstance(free, StepPlan)
        least, error = least_total(problem, LookAhead(), free.lower_bound)
        assert error == 0
        assert least <= total(problem, plan) + 1e-6


@given(larger_steps())
@settings(max_examples=60)
def test_a_lazy_step_counts_what_it_moves_and_uses_no_more_nodes(step: StepProblem) -> None:
    work, state = np.array(step.work, dtype=float), np.array(step.state, dtype=float)
    place = np.array(step.current.nodes_of_tasks)
    out = np.empty_like(place)
    moved = lazy_step(work, state, state, place, step.target.nodes, step.limit, out)
    assert moved == state[out != place].sum()
    assert len(set(out.tolist())) <= step.target.nodes


def test_it_pays_now_for_what_comes() -> None:
    """Two heavy tasks must part when a third node comes; it is cheaper to part others now."""
    step = StepProblem.of([2, 2, 1, 1, 1, 1], [5, 5, 4, 4, 4, 4], [0, 0, 0, 0, 1, 1], 2, 0.25)
    later = FreeAheadProblem.of_futures(step, [Future.of(1, [(4, 0.0)])])
    free, ahead = free_step(step), free_ahead(later)
    assert isinstance(free, StepPlan)
    assert isinstance(ahead, FreeAheadPlan)
    after = StepProblem(step.work, step.state, free.assignment.widened(4), Target(4, 0.0))
    onward = free_step(after)
    assert isinstance(onward, StepPlan)
    assert total(later, ahead) <= free.cost + onward.cost
    assert ahead.status == "optimal"


def test_staying_is_the_plan_where_it_serves() -> None:
    step = StepProblem.of([1] * 30, [7] * 30, [j % 4 for j in range(30)], 5, 0.8)
    plan = free_ahead(FreeAheadProblem.of_chain(step, CHAIN), look=FEW)
    assert isinstance(plan, FreeAheadPlan)
    assert (plan.step.cost, plan.step.moves, plan.looked_at) == (0, (), 1)


def test_the_planner_takes_a_free_step_to_a_size_that_the_chain_does_not_know() -> None:
    step = StepProblem.of([1] * 30, [7] * 30, [j % 4 for j in range(30)], 9, 0.1)
    planner = FreeAheadPlanner(CHAIN, [PastWork(4, (1,) * 30)], FEW)
    assert planner(step) == free_step(step, effort=0)
    assert not planner.contiguous


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda step: FreeAheadProblem.of_futures(step, []), "futures"),
        (lambda step: FreeAheadProblem.of_futures(step, [Future.of(0.5, [(2, 0)])]), "futures"),
        (lambda step: FreeAheadProblem.of_futures(step, [Future.of(1, [(2, 0)])], 2), "gamma"),
        (lambda _: Future.of(1, []), "targets"),
        (lambda step: FreeAheadProblem.of_chain(step, CHAIN, "left"), "direction"),
        (
            lambda step: FreeAheadProblem.of_chain(step, CHAIN, past=[PastWork(3, (1,))]),
            "past[0].work",
        ),
    ],
)
def test_what_is_wrong_is_named(made: object, field: str) -> None:
    step = StepProblem.of([1, 2], [3, 4], [0, 1], 3, 0.4)
    with pytest.raises(ProblemError) as caught:
        made(step)  # type: ignore[operator]
    assert caught.value.field == field


@pytest.mark.parametrize("seed", range(6))
def test_where_one_placement_serves_every_size_it_is_found(seed: int) -> None:
    random = np.random.default_rng(seed)
    state = random.integers(1, 100, 24).tolist()
    step = StepProblem.of([1] * 24, state, [task // 4 for task in range(24)], 3, 1.2)
    plan = free_ahead(FreeAheadProblem.of_chain(step, CHAIN))
    assert isinstance(plan, FreeAheadPlan)
    assert plan.projected == 0
    assert max(plan.step.assignment.loads(step.work)) <= 8


def test_thousands_of_tasks_are_planned_too() -> None:
    step = StepProblem.of([1] * 3000, [7] * 3000, [j % 4 for j in range(3000)], 5, 0.2)
    plan = free_ahead(FreeAheadProblem.of_futures(step, [Future.of(1, [(4, 0.2), (6, 0.2)])]))
    assert isinstance(plan, FreeAheadPlan)
    assert certify_step(step, plan.step).faults == ()


def test_very_many_tasks_are_looked_at_less_widely() -> None:
    wide = LookAhead()
    assert wide.within_reach(64) == wide
    narrow = wide.within_reach(20_000)
    steps = narrow.futures * narrow.migrations * 20_000
    assert (narrow.candidates + narrow.rounds * narrow.near) * steps < 100_000_000
    assert narrow.futures >= 6
    given = wide.within_reach(20_000, futures=1)
    assert narrow.candidates <= given.candidates <= wide.candidates
