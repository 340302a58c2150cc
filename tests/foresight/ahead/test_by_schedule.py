from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.foresight.ahead.test_planner import (
    between,
    exhaustive,
    larger_steps,
    serving,
    steps,
)
from tests.strategies import taus

from elastream.foresight.ahead.by_schedule import ScheduledStep, scheduled_step
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequencePlan, SequenceProblem
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream.placement.free_step.planner import free_step

EFFORT = 20_000_000


def moved_by_free_steps(step: StepProblem, sizes: list[int]) -> float:
    plan = free_step(step, effort=0)
    total = 0.0
    for size in sizes:
        assert isinstance(plan, StepPlan)
        total += float(plan.cost)
        following = StepProblem(step.work, step.state, plan.assignment, Target(size, 0.4))
        plan = free_step(following, effort=0)
    assert isinstance(plan, StepPlan)
    return total + float(plan.cost)


@given(steps(), st.lists(st.tuples(st.integers(1, 3), taus), min_size=1, max_size=3))
@settings(max_examples=200)
def test_few_tasks_are_planned_as_well_as_can_be(
    step: StepProblem, later: list[tuple[int, float]]
) -> None:
    targets = [Target(nodes, tau) for nodes, tau in later]
    found = scheduled_step(step, targets, 1, effort=EFFORT)
    if isinstance(found, Infeasible):
        assert not serving(step, step.target).any()
        return
    assert certify_step(step, found.step).faults == ()
    if not all(serving(step, target).any() for target in targets):
        return
    cost = between(step)
    onward = np.zeros(len(cost))
    for target in reversed(targets):
        fits = serving(step, target)
        onward = (cost[:, fits] + onward[fits]).min(axis=1)
    assert found.total == pytest.approx(exhaustive(step, onward), abs=1e-9)


@given(larger_steps(), st.lists(st.integers(3, 6), min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_no_more_is_moved_in_all_than_by_free_steps_or_by_a_sequence(
    step: StepProblem, sizes: list[int]
) -> None:
    later = [Target(size, 0.4) for size in sizes]
    found = scheduled_step(step, later, 1, effort=EFFORT)
    if isinstance(found, Infeasible):
        return
    assert certify_step(step, found.step).faults == ()
    if not isinstance(free_step(step, effort=0), Infeasible):
        assert found.total <= moved_by_free_steps(step, sizes) + 1e-9


def consecutive(seed: int) -> StepProblem:
    random = np.random.default_rng(seed)
    work = random.integers(1, 10, 24).tolist()
    state = random.integers(1, 100, 24).tolist()
    return StepProblem.of(work, state, [task // 6 for task in range(24)], 3, 0.3)


@pytest.mark.parametrize("seed", range(12))
def test_where_tasks_are_consecutive_the_papers_sequence_is_never_better(seed: int) -> None:
    step = consecutive(seed)
    later = (Target(5, 0.3), Target(3, 0.3), Target(6, 0.3))
    known = SequenceProblem(step.work, step.state, step.current, (step.target, *later))
    alone = sequence(known, effort=EFFORT)
    found = scheduled_step(step, later, 1, effort=EFFORT)
    assert isinstance(found, ScheduledStep)
    if isinstance(alone, SequencePlan):
        assert found.total <= float(alone.weighted_cost) + 1e-9


def test_tasks_of_a_node_are_neighbours_whatever_their_numbers() -> None:
    """Task t of the consecutive problem is task ``order[t]`` of the other one."""
    step = consecutive(3)
    order = np.random.default_rng(5).permutation(24)
    places = [step.current.nodes_of_tasks[t] for t in order]
    mixed = StepProblem.of(
        [step.work[t] for t in order], [step.state[t] for t in order], places, 3, 0.3
    )
    later = (Target(5, 0.3), Target(3, 0.3))
    found = scheduled_step(mixed, later, 1, effort=EFFORT)
    assert isinstance(found, ScheduledStep)
    assert certify_step(mixed, found.step).faults == ()


def test_a_copy_costs_nothing_now() -> None:
    step = consecutive(4)
    copies = frozenset((task, 0) for task in range(18, 24))
    with_copies = StepProblem(step.work, step.state, step.current, step.target, copies)
    later = (Target(5, 0.3), Target(3, 0.3))
    without, found = (
        scheduled_step(problem, later, 1, effort=EFFORT) for problem in (step, with_copies)
    )
    assert isinstance(without, ScheduledStep)
    assert isinstance(found, ScheduledStep)
    assert found.step.cost <= without.step.cost


def test_what_comes_last_is_a_free_step() -> None:
    step = consecutive(6)
    found = scheduled_step(step, (), 1, effort=EFFORT)
    alone = free_step(step)
    assert isinstance(found, ScheduledStep)
    assert isinstance(alone, StepPlan)
    assert (found.way, found.step.cost) == ("free", alone.cost)
