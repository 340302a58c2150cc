from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.migration import StepProblem
from elastream.placement.free_step.content_shares import mixture
from elastream.placement.free_step.contents import Contents, best_contents, contents_of
from elastream.placement.free_step.ejection import eject, go_home
from elastream.placement.free_step.keeping import keep
from elastream.placement.free_step.largest_shares import largest_shares
from elastream.placement.free_step.misfit import heavy_task
from elastream.placement.free_step.packing import return_home, settle
from elastream.placement.free_step.scarce_room import scarce_room
from elastream.placement.free_step.whole_step import Answer, WholeStep, whole_step


@st.composite
def steps(draw: st.DrawFn) -> WholeStep:
    """Few tasks, some heavy, on few nodes."""
    tasks = draw(st.integers(1, 6))
    work = draw(st.lists(st.integers(0, 9), min_size=tasks, max_size=tasks))
    state = draw(st.lists(st.integers(0, 9), min_size=tasks, max_size=tasks))
    home = draw(st.lists(st.integers(0, 2), min_size=tasks, max_size=tasks))
    tau = draw(st.sampled_from([0, 0.1, 0.3, 0.6, 1]))
    problem = StepProblem.of(work, state, home, draw(st.integers(1, 4)), tau)
    if heavy_task(problem) is not None:
        problem = StepProblem.of(work, state, home, 1, tau)
    return whole_step(problem)


def cheapest(step: WholeStep) -> float:
    """Try every placement; infinity where none fits."""
    places = (np.array(p) for p in product(range(len(step.nodes)), repeat=len(step.work)))
    return min((step.cost(place) for place in places if step.fits(place)), default=math.inf)


def crowded(tasks: int, nodes: int, *, heavy: int, seed: int) -> WholeStep:
    """One heavy task on each node and light ones on all; one node in ten is to be left."""
    rng = np.random.default_rng(seed)
    home = np.arange(tasks) % nodes
    work = np.where(np.arange(tasks) < nodes, heavy, 1) * rng.integers(50, 150, size=tasks)
    state = rng.integers(1, 10**6, size=tasks)
    return whole_step(StepProblem.of(work, state, home.tolist(), nodes - nodes // 10, 0.3))


@given(steps())
@settings(max_examples=300)
def test_its_placement_fits_and_its_bound_holds(step: WholeStep) -> None:
    kept = keep(step)
    found = scarce_room(step, kept, Answer(None, kept.lower_bound), effort=60_000)
    best = cheapest(step)
    assert kept.lower_bound <= found.lower_bound <= best
    if found.place is not None:
        assert step.fits(found.place)
        assert step.cost(found.place) >= best


@given(steps(), st.integers(0, 2**32))
@settings(max_examples=300)
def test_any_prices_prove_a_bound(step: WholeStep, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fractions = 8
    price = step.state * fractions + rng.integers(0, 60, size=len(step.work))
    every = np.arange(len(step.work))
    best = best_contents(step, price, fractions, every, room=1 << 12)
    assert best.bound <= fractions * cheapest(step)
    again = best_contents(step, price, fractions, every, room=1 << 12, known=best.contents)
    assert again.bound == best.bound


@given(steps())
@settings(max_examples=200)
def test_the_cheapest_mixture_costs_no_more_than_any_placement_it_can_mix(step: WholeStep) -> None:
    kept = keep(step)
    place = settle(step, np.full(len(step.work), -1), kept.open_nodes)
    if place.min() < 0:
        return
    alone = contents_of(step, np.arange(step.holders).repeat(1)[step.home])
    nothing = Contents(place[:0], np.zeros(step.holders + 1, np.int64), np.arange(step.holders))
    contents = nothing.joined(alone).joined(contents_of(step, place))
    every = np.arange(len(step.work))
    fine = 4 * int(step.state.sum()) + 1
    mixed = mixture(step, contents, every[: step.holders], every, fine=fine, most_steps=10**8)
    assert mixed is not None
    assert mixed.cost <= step.cost(place) + 1e-6
    assert mixed.uncovered == pytest.approx(0, abs=1e-6)


def test_a_crowded_step_is_proven_and_ends_the_same_every_time() -> None:
    step = crowded(900, 60, heavy=20, seed=4)
    kept = keep(step)
    packed = settle(step, kept.place, kept.open_nodes)
    known = Answer(packed if packed.min() >= 0 else None, kept.lower_bound)
    first, second = (scarce_room(step, kept, known, effort=300_000) for _ in range(2))
    assert first.place is not None
    assert second.place is not None
    assert step.fits(first.place)
    assert first.gap(step) == 0 < known.gap(step)
    assert first.place.tolist() == second.place.tolist()


def test_every_node_takes_its_largest_share_and_no_more_are_used_than_allowed() -> None:
    step = whole_step(StepProblem.of([1] * 4, [1] * 4, [0, 0, 1, 2], 2, 1))
    contents = contents_of(step, step.home).joined(contents_of(step, np.array([1, 1, 1, 1])))
    place, open_nodes = largest_shares(step, contents, np.array([0.9, 0.3, 1.0, 0.7]))
    assert place.tolist() == [0, 0, -1, 2]
    assert open_nodes.tolist() == [True, False, True]


def test_more_shares_of_idle_nodes_than_there_are_use_no_further_node() -> None:
    step = whole_step(StepProblem.of([1] * 4, [1] * 4, [0, 0, 1, 1], 3, 1))
    idle = np.full(4, step.holders)
    contents = contents_of(step, idle)
    for _ in range(3):
        contents = contents.joined(contents_of(step, idle))
    place, open_nodes = largest_shares(step, contents, np.ones(len(contents.kind)))
    assert place.max() < len(step.nodes) == len(open_nodes)


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_plain_and_the_compiled_searches_place_the_same(seed: int) -> None:
    step = crowded(24, 5, heavy=4, seed=seed)
    kept = keep(step)
    found = []
    for search, returning in ((eject.plain, go_home.plain), (eject.compiled, go_home.compiled)):
        place = kept.place
        loads = step.loads(place)
        loads_and_room = (loads, kept.open_nodes, step.capacity)
        task = (step.work, step.state, step.home, step.copies, place, *loads_and_room)
        left = search(*task, 200, 10**6)
        assert loads.tolist() == step.loads(place).tolist()
        if left == 0:
            returning(*task, 10**6)
            assert loads.tolist() == step.loads(place).tolist()
        found.append((left, place.tolist()))
    assert found[0] == found[1]


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_what_is_settled_fits_and_what_returns_home_costs_no_more(seed: int) -> None:
    step = crowded(40, 8, heavy=3, seed=seed)
    kept = keep(step)
    place = settle(step, kept.place, kept.open_nodes)
    assert step.loads(place).max() <= step.capacity
    if place.min() >= 0:
        better = return_home(step, place, kept.open_nodes)
        assert step.fits(better)
        assert step.cost(better) <= step.cost(place)


def test_a_search_that_may_take_no_step_leaves_what_does_not_fit() -> None:
    step = crowded(400, 40, heavy=20, seed=1)
    kept = keep(step)
    place = settle(step, kept.place, kept.open_nodes, steps=0)
    assert step.loads(place).max() <= step.capacity
    assert place.min() == -1
