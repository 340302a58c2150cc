from __future__ import annotations

import math
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.migration import StepProblem
from elastream.placement.free_step.assignment_program import assign
from elastream.placement.free_step.keeping import keep
from elastream.placement.free_step.misfit import heavy_task
from elastream.placement.free_step.packing import settle
from elastream.placement.free_step.whole_step import Answer, WholeStep, whole_step


@st.composite
def steps(draw: st.DrawFn) -> WholeStep:
    """Few tasks, some heavy, on few nodes."""
    tasks = draw(st.integers(1, 6))
    work = draw(st.lists(st.integers(0, 9), min_size=tasks, max_size=tasks))
    state = draw(st.lists(st.integers(0, 9), min_size=tasks, max_size=tasks))
    home = draw(st.lists(st.integers(0, 2), min_size=tasks, max_size=tasks))
    tau = draw(st.sampled_from([0, 0.1, 0.3, 0.6, 1]))
    copies = draw(st.lists(st.tuples(st.integers(0, tasks - 1), st.just(0)), max_size=2))
    problem = StepProblem.of(work, state, home, draw(st.integers(1, 4)), tau, copies)
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
def test_it_ends_with_the_cheapest_placement_or_a_proof_that_there_is_none(step: WholeStep) -> None:
    kept = keep(step)
    found = assign(step, kept, Answer(None, kept.lower_bound), effort=600_000)
    best = cheapest(step)
    assert kept.lower_bound <= best
    if math.isinf(best):
        assert found.place is None
        assert found.lower_bound > step.state.sum()
    else:
        assert found.place is not None
        assert step.fits(found.place)
        assert step.cost(found.place) == best == found.lower_bound


@given(steps(), st.integers(1, 30))
@settings(max_examples=200)
def test_short_of_effort_its_placement_fits_and_its_bound_holds(
    step: WholeStep, branches: int
) -> None:
    kept = keep(step)
    found = assign(step, kept, Answer(None, kept.lower_bound), effort=branches * 20)
    best = cheapest(step)
    assert kept.lower_bound <= found.lower_bound <= max(best, 1 + step.state.sum())
    if found.place is not None:
        assert step.fits(found.place)
        assert step.cost(found.place) >= best >= found.lower_bound


def test_a_crowded_step_is_proven_and_ends_the_same_every_time() -> None:
    step = crowded(900, 60, heavy=20, seed=4)
    kept = keep(step)
    packed = settle(step, kept.place, kept.open_nodes)
    known = Answer(packed if packed.min() >= 0 else None, kept.lower_bound)
    first, second = (assign(step, kept, known, effort=3_000_000) for _ in range(2))
    assert first.place is not None
    assert second.place is not None
    assert step.fits(first.place)
    assert first.gap(step) == 0 < known.gap(step)
    assert first.place.tolist() == second.place.tolist()


def test_a_program_too_wide_is_left_out() -> None:
    step = crowded(900, 60, heavy=20, seed=4)
    kept = keep(step)
    known = Answer(None, kept.lower_bound)
    assert assign(step, kept, known, effort=1000) == known
