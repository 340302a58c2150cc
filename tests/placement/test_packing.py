from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.migration import StepProblem
from elastream.placement.free_step.ejection import eject, go_home
from elastream.placement.free_step.keeping import keep
from elastream.placement.free_step.packing import return_home, settle
from elastream.placement.free_step.whole_step import WholeStep, whole_step


def crowded(tasks: int, nodes: int, *, heavy: int, seed: int) -> WholeStep:
    """One heavy task on each node and light ones on all; one node in ten is to be left."""
    rng = np.random.default_rng(seed)
    home = np.arange(tasks) % nodes
    work = np.where(np.arange(tasks) < nodes, heavy, 1) * rng.integers(50, 150, size=tasks)
    state = rng.integers(1, 10**6, size=tasks)
    return whole_step(StepProblem.of(work, state, home.tolist(), nodes - nodes // 10, 0.3))


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
