"""Copies of state on other nodes: a task that goes to one loads nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.exhaustive import cheapest_placement, cheapest_then_flattest
from tests.strategies import step_problems, taus

from elastream.foresight.mtm.planner import transition
from elastream.foresight.mtm.problem import MigrationChain, TransitionProblem
from elastream.foresight.ssm.single_step import single_step
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream.placement.free_step.annealing import anneal
from elastream.placement.free_step.content_prices import content_prices
from elastream.placement.free_step.contents import best_contents
from elastream.placement.free_step.ejection import eject, go_home
from elastream.placement.free_step.keeping import keep
from elastream.placement.free_step.packing import crowd, return_home, settle
from elastream.placement.free_step.planner import free_step
from elastream.placement.free_step.whole_step import whole_step


@st.composite
def with_copies(draw: st.DrawFn, problem: StepProblem) -> StepProblem:
    """The problem with some copies, up to two a task on average."""
    tasks, nodes = len(problem.work), problem.nodes_after
    pair = st.tuples(st.integers(0, tasks - 1), st.integers(0, nodes - 1))
    pairs = draw(st.lists(pair, max_size=2 * tasks))
    homes = problem.current.nodes_of_tasks
    return replace(problem, copies=frozenset(each for each in pairs if homes[each[0]] != each[1]))


@st.composite
def scattered(draw: st.DrawFn, max_tasks: int = 6) -> StepProblem:
    """Problems whose nodes hold any tasks and any copies."""
    tasks = draw(st.integers(1, max_tasks))
    numbers = st.lists(st.integers(0, 7), min_size=tasks, max_size=tasks)
    homes = draw(st.lists(st.integers(0, 3), min_size=tasks, max_size=tasks))
    target = draw(st.integers(1, 4))
    problem = StepProblem.of(draw(numbers), draw(numbers), homes, target, draw(taus))
    return draw(with_copies(problem))


def standing(
    tasks: int, before: int, after: int, seed: int, *, share: float = 1.0, tau: float = 0.2
) -> StepProblem:
    """Tasks that were spread evenly and whose work changed; some have a copy on another node.

    As standbys are chosen: the largest first, up to a share of all state, each on the node that
    has least of them.
    """
    rng = np.random.default_rng(seed)
    work = 1e6 * rng.permutation(np.arange(1, tasks + 1)) ** -0.5
    home, loads = np.zeros(tasks, dtype=int), np.zeros(before)
    for task in np.argsort(-work):
        home[task] = loads.argmin()
        loads[home[task]] += work[task]
    limit = 1.15 * work.sum() / max(before, after)
    work = np.minimum(work * rng.lognormal(0, 0.2, size=tasks), limit).astype(int) + 1
    state = rng.lognormal(15, 1.5, size=tasks).astype(int)
    left, held, copies = share * state.sum(), np.zeros(before), []
    for task in np.argsort(-state):
        if state[task] <= left:
            others = np.where(np.arange(before) == home[task], np.inf, held)
            copies.append((int(task), int(others.argmin())))
            held[others.argmin()] += state[task]
            left -= state[task]
    return StepProblem.of(work, state, home.tolist(), after, tau, copies)


def without_copies(problem: StepProblem) -> StepProblem:
    return replace(problem, copies=frozenset())


@given(st.one_of(step_problems(max_tasks=6).flatmap(with_copies), scattered()))
@settings(max_examples=1000)
def test_free_step_equals_exhaustive_search(problem: StepProblem) -> None:
    best = cheapest_placement(problem)
    plan = free_step(problem)
    if best is None:
        assert isinstance(plan, Infeasible)
    else:
        assert isinstance(plan, StepPlan)
        assert certify_step(problem, plan).faults == ()
        assert plan.cost == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert plan.status == "optimal"


@given(scattered(), st.integers(0, 2**32))
@settings(max_examples=60)
def test_any_prices_prove_a_bound(problem: StepProblem, seed: int) -> None:
    best = cheapest_placement(problem)
    if best is None:
        return
    step = whole_step(problem)
    rng = np.random.default_rng(seed)
    every = np.arange(len(step.work))
    price = rng.integers(0, 3 * 20, size=len(every)) + 20 * step.state * rng.integers(0, 2)
    bounds = [
        keep(step).lower_bound,
        best_contents(step, price, 20, every, room=1 << 12).bound / 20,
        content_prices(step, step.home * 0 - 1, 10**9, heaviest=2, iterations=3).lower_bound,
    ]
    assert max(bounds) * float(step.state_unit) <= best + 1e-9


@given(scattered(max_tasks=5))
@settings(max_examples=120)
def test_no_task_goes_to_a_copy_whose_own_node_is_in_use_and_has_room_below_the_fullest(
    problem: StepProblem,
) -> None:
    plan = free_step(problem)
    if isinstance(plan, Infeasible):
        return
    after, loads = plan.assignment, plan.assignment.loads(problem.work)
    for move in plan.moves:
        to_copy = (move.task, move.target) in problem.copies
        if to_copy and move.source in after.nodes_of_tasks:
            assert loads[move.source] + problem.work[move.task] > plan.max_load


def test_tasks_that_may_all_stay_do_so_whatever_copies_there_are() -> None:
    problem = StepProblem.of([1] * 6, [5] * 6, [0, 0, 1, 1, 2, 2], 3, 0, [(0, 1), (2, 2), (4, 0)])
    plan = free_step(problem)
    assert isinstance(plan, StepPlan)
    assert plan.moves == ()


def test_a_node_closes_whose_tasks_have_copies_though_others_keep_less() -> None:
    problem = StepProblem.of(
        [1] * 6, [9, 9, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2], 2, 0.5, [(0, 1), (1, 2)]
    )
    plan = free_step(problem)
    assert isinstance(plan, StepPlan)
    assert (plan.status, plan.cost) == ("optimal", 0)
    assert [(move.task, move.target, move.state) for move in plan.moves] == [(0, 1, 0), (1, 2, 0)]


@pytest.mark.parametrize(
    ("tasks", "before", "after", "share", "tau"),
    [
        (60, 4, 3, 0.3, 0.05),
        (64, 8, 7, 1.0, 0.05),
        (200, 10, 9, 0.3, 0.05),
        (200, 20, 18, 0.3, 0.05),
        (500, 50, 48, 0.6, 0.1),
        (2000, 20, 19, 0.3, 0.05),
        (2000, 100, 97, 1.0, 0.2),
        (2000, 100, 110, 1.0, 0.2),
    ],
)
def test_large_problems_are_proven_and_certified(
    tasks: int, before: int, after: int, share: float, tau: float
) -> None:
    problem = standing(tasks, before, after, seed=1, share=share, tau=tau)
    plan, plain = free_step(problem), free_step(without_copies(problem))
    assert isinstance(plan, StepPlan)
    assert isinstance(plain, StepPlan)
    assert certify_step(problem, plan).faults == ()
    assert plan.status == "optimal"
    assert plan.cost < plain.cost


def test_a_scale_in_by_a_tenth_of_tasks_that_all_have_copies_loads_almost_nothing() -> None:
    problem = standing(200, 20, 18, seed=1, tau=0.05)
    plan = free_step(problem)
    assert isinstance(plan, StepPlan)
    assert certify_step(problem, plan).faults == ()
    assert plan.cost <= 0.002 * sum(problem.state)


@given(st.integers(0, 2**32))
@settings(max_examples=5)
def test_copies_never_make_a_plan_dearer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = map(int, rng.integers(2, 7, size=2))
    problem = standing(24, before, after, seed, share=float(rng.random()), tau=0.1)
    plan, plain = free_step(problem), free_step(without_copies(problem))
    assert isinstance(plan, Infeasible) == isinstance(plain, Infeasible)
    if isinstance(plan, StepPlan) and isinstance(plain, StepPlan):
        assert certify_step(problem, plan).faults == ()
        assert plan.lower_bound <= plan.cost <= plain.cost


@given(st.integers(0, 2**32))
@settings(max_examples=40)
def test_the_plain_and_the_compiled_searches_place_the_same(seed: int) -> None:
    step = whole_step(standing(24, 5, 4, seed, tau=0.05))
    kept = keep(step)
    found = []
    for search, returning in ((eject.plain, go_home.plain), (eject.compiled, go_home.compiled)):
        place = kept.place
        loads = step.loads(place)
        room = (loads, kept.open_nodes, step.capacity)
        task = (step.work, step.state, step.home, step.copies, place, *room)
        left = search(*task, 200, 10**6)
        assert loads.tolist() == step.loads(place).tolist()
        if left == 0:
            returning(*task, 10**6)
            assert loads.tolist() == step.loads(place).tolist()
        found.append((left, place.tolist()))
    assert found[0] == found[1]


@given(st.integers(0, 2**32))
@settings(max_examples=40)
def test_what_returns_home_or_is_annealed_fits_and_costs_no_more(seed: int) -> None:
    step = whole_step(standing(40, 8, 7, seed, share=0.5, tau=0.1))
    kept = keep(step)
    place = settle(step, kept.place, kept.open_nodes)
    if place.min() >= 0:
        better = return_home(step, place, kept.open_nodes)
        assert step.fits(better)
        assert step.cost(better) <= step.cost(place)
    start = crowd(step, kept.place, kept.open_nodes)
    cooled = anneal(step, start, kept.open_nodes, trials=4000, seed=1)
    assert cooled is None or step.fits(cooled)


@given(step_problems(max_tasks=6, max_nodes=4).flatmap(with_copies))
@settings(max_examples=200)
def test_single_step_is_valid_and_its_bound_holds(problem: StepProblem) -> None:
    best = cheapest_then_flattest(problem)
    plan = single_step(problem)
    if best is None:
        assert isinstance(plan, Infeasible)
        return
    assert isinstance(plan, StepPlan)
    assert certify_step(problem, plan, contiguous=True).faults == ()
    plain = single_step(without_copies(problem))
    assert isinstance(plain, StepPlan)
    slack = 1e-9 * (1 + float(best[0]))
    assert plan.lower_bound <= best[0] + slack
    assert best[0] <= plan.cost + slack
    assert plan.cost <= plain.cost + slack


def test_single_step_gives_an_interval_to_the_node_with_its_copies() -> None:
    problem = StepProblem.of(
        [1] * 4, [1] * 4, [(0, 4), (4, 4), (4, 4)], 2, 0, copies=[(0, 2), (1, 2)]
    )
    plan = single_step(problem)
    assert isinstance(plan, StepPlan)
    assert (plan.status, plan.cost) == ("optimal", 0)
    assert plan.assignment.nodes_of_tasks == (2, 2, 0, 0)


def test_transition_counts_copies_and_calls_nothing_optimal_with_them() -> None:
    chain = MigrationChain.of([2, 3], [[0, 1], [1, 0]], 0.9)
    step = StepProblem.of([1] * 6, [1] * 6, [(0, 3), (3, 6)], 3, 0)
    plain = transition(TransitionProblem.of(step, chain))
    assert not isinstance(plain, Infeasible)
    moved = [(move.task, 2) for move in plain.step.moves]
    copied = replace(step, copies=frozenset(moved))
    plan = transition(TransitionProblem.of(copied, chain))
    assert not isinstance(plan, Infeasible)
    assert (plain.status, plan.status) == ("optimal", "feasible")
    assert certify_step(copied, plan.step, contiguous=True).faults == ()
    assert plan.step.cost < plain.step.cost


def test_the_certificate_names_a_cost_that_leaves_copies_out() -> None:
    problem = StepProblem.of([1, 1], [5, 7], [(0, 2)], 2, 0, [(1, 1)])
    plan = free_step(problem)
    assert isinstance(plan, StepPlan)
    assert plan.cost == 0
    faults = certify_step(without_copies(problem), plan).faults
    assert any(fault.startswith("cost is said to be 0") for fault in faults)


def test_problems_without_copies_are_as_they_were() -> None:
    cuts = list(pairwise([0, 9, 21, 40]))
    problem = StepProblem.of(range(1, 41), range(40), cuts, 4, 0.1)
    assert problem.copies == frozenset()
    step = whole_step(problem)
    assert step.copies.shape == (40, 0)
    assert (step.first_price == step.state).all()
