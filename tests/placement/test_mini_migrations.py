from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import ProblemError
from elastream.model.migration import LOAD_TOLERANCE, StepProblem
from elastream.model.plan import Move, StepPlan, step_plan
from elastream.placement.transfer.mini_migrations import (
    MiniMigrations,
    MiniStep,
    Overload,
    mini_migrations,
)
from elastream.placement.transfer.move_order import Caps

Strain = tuple[Fraction, Fraction, int]


@st.composite
def plans(draw: st.DrawFn, max_tasks: int, max_moves: int) -> tuple[StepProblem, StepPlan]:
    """A problem and any plan for it, balanced or not, of at most ``max_moves`` moves."""
    tasks, nodes = draw(st.integers(1, max_tasks)), draw(st.integers(2, 4))
    unit = draw(st.sampled_from([1, 1, 1, 0.1]))
    node = st.integers(0, nodes - 1)
    amounts = st.lists(st.integers(0, 5), min_size=tasks, max_size=tasks)
    current = draw(st.lists(node, min_size=tasks, max_size=tasks))
    after = list(current)
    movable = st.lists(st.integers(0, tasks - 1), max_size=max_moves, unique=True)
    for task in draw(movable):
        after[task] = draw(node)
    problem = StepProblem.of(
        [unit * load for load in draw(amounts)],
        [unit * size for size in draw(amounts)],
        current,
        nodes,
        draw(st.sampled_from([0, 0.25, 0.5, 1])),
    )
    return problem, step_plan(problem, tuple(after))


def raises(made: MiniMigrations) -> bool:
    """Whether a step puts a node over the limit, or further over it."""
    return any(node.raised for step in made.steps for node in step.overloaded)


caps = st.one_of(
    st.builds(lambda k: {"max_tasks": k}, st.integers(1, 3)),
    st.builds(lambda b: {"max_bytes": b}, st.sampled_from([0, 0.3, 1, 4, 6])),
    st.builds(
        lambda k, b: {"max_tasks": k, "max_bytes": b}, st.integers(1, 3), st.sampled_from([2, 5])
    ),
)
scopes = st.sampled_from(["node", "batch"])


def within_caps(
    moves: Sequence[Move],
    per: str,
    max_tasks: int | None = None,
    max_bytes: float | None = None,
) -> bool:
    groups = [moves]
    if per == "node":
        groups = [[m for m in moves if m.target == node] for node in {m.target for m in moves}]
    for group in groups:
        size = sum(Fraction(m.state) for m in group)
        if max_tasks is not None and len(group) > max_tasks:
            return False
        if max_bytes is not None and len(group) > 1 and size > Fraction(max_bytes):
            return False
    return True


def loads_through(problem: StepProblem, steps: Sequence[Sequence[Move]]) -> list[list[Fraction]]:
    """The exact loads before the first step and after each."""
    nodes = list(problem.current.nodes_of_tasks)
    history = []
    for moves in [(), *steps]:
        for move in moves:
            assert nodes[move.task] == move.source
            nodes[move.task] = move.target
        loads = [Fraction(0)] * problem.nodes_after
        for task, node in enumerate(nodes):
            loads[node] += Fraction(problem.work[task])
        history.append(loads)
    return history


def bearable(problem: StepProblem) -> Fraction:
    """The highest load within the limit that the tasks' work can add up to."""
    grain = Fraction(1, math.lcm(*(Fraction(load).denominator for load in problem.work)))
    limit = Fraction(problem.limit) * (1 + 2 * Fraction(LOAD_TOLERANCE))
    return min(limit // grain * grain, sum(map(Fraction, problem.work), Fraction(0)))


def strain(problem: StepProblem, steps: Sequence[Sequence[Move]]) -> Strain:
    limit = bearable(problem)
    history = loads_through(problem, steps)
    raised = over = Fraction(0)
    for before, after in pairwise(history):
        for old, new in zip(before, after, strict=True):
            raised += max(Fraction(0), new - max(limit, old))
            over += max(Fraction(0), new - limit)
    return raised, over, len(steps)


def every_order(moves: Sequence[Move], per: str, cap: dict[str, Any]) -> Iterator[list[list[Move]]]:
    if not moves:
        yield []
    for size in range(1, len(moves) + 1):
        for first in combinations(moves, size):
            if within_caps(first, per, **cap):
                rest = [move for move in moves if move not in first]
                yield from ([list(first), *later] for later in every_order(rest, per, cap))


def moves_of(made: MiniMigrations) -> list[tuple[Move, ...]]:
    return [step.moves for step in made.steps]


@given(plans(max_tasks=8, max_moves=5), caps, scopes)
@settings(max_examples=250)
def test_no_order_of_a_few_moves_strains_the_nodes_less(
    case: tuple[StepProblem, StepPlan], cap: dict[str, Any], per: Literal["node", "batch"]
) -> None:
    problem, plan = case
    made = mini_migrations(problem, plan, per=per, **cap)
    best = min(strain(problem, steps) for steps in every_order(plan.moves, per, cap))
    assert strain(problem, moves_of(made)) == best
    assert made.proven


@given(plans(max_tasks=8, max_moves=5), caps, scopes)
@settings(max_examples=250)
def test_no_step_leaves_a_node_over_the_limit_if_any_order_avoids_it(
    case: tuple[StepProblem, StepPlan], cap: dict[str, Any], per: Literal["node", "batch"]
) -> None:
    problem, plan = case
    limit = Fraction(problem.limit) * (1 + 2 * Fraction(LOAD_TOLERANCE))
    avoidable = any(
        all(max(loads) <= limit for loads in loads_through(problem, steps)[1:])
        for steps in every_order(plan.moves, per, cap)
    )
    made = mini_migrations(problem, plan, per=per, **cap)
    clean = all(step.overloaded == () for step in made.steps)
    assert clean == avoidable


@given(plans(max_tasks=30, max_moves=25), caps, scopes, st.sampled_from([0, 3, 8]))
@settings(max_examples=250)
def test_any_number_of_moves_is_made_once_within_the_caps_and_every_overload_is_reported(
    case: tuple[StepProblem, StepPlan],
    cap: dict[str, Any],
    per: Literal["node", "batch"],
    exact_moves: int,
) -> None:
    problem, plan = case
    made = mini_migrations(problem, plan, per=per, exact_moves=exact_moves, **cap)
    assert sorted(move for moves in moves_of(made) for move in moves) == list(plan.moves)
    assert all(within_caps(moves, per, **cap) for moves in moves_of(made))
    assert all(moves == tuple(sorted(moves)) != () for moves in moves_of(made))
    history = loads_through(problem, moves_of(made))
    limit = Fraction(problem.limit) * (1 + 2 * Fraction(LOAD_TOLERANCE))
    for step, (before, after) in zip(made.steps, pairwise(history), strict=True):
        over = [node for node, load in enumerate(after) if load > limit]
        assert [overload.node for overload in step.overloaded] == over
        for node, excess, raised in ((o.node, o.excess, o.raised) for o in step.overloaded):
            added = after[node] - max(before[node], Fraction(problem.limit))
            assert excess == pytest.approx(float(after[node] - Fraction(problem.limit)))
            assert raised == pytest.approx(max(0.0, float(added)), abs=1e-8)


@given(plans(max_tasks=9, max_moves=6), caps, scopes)
@settings(max_examples=250)
def test_what_greedy_calls_proven_is_as_good_as_exact(
    case: tuple[StepProblem, StepPlan], cap: dict[str, Any], per: Literal["node", "batch"]
) -> None:
    problem, plan = case
    greedy = mini_migrations(problem, plan, per=per, exact_moves=0, **cap)
    exact = mini_migrations(problem, plan, per=per, **cap)
    greedy_strain = strain(problem, moves_of(greedy))
    exact_strain = strain(problem, moves_of(exact))
    assert greedy_strain >= exact_strain
    if greedy.proven:
        assert greedy_strain[:2] == exact_strain[:2]


def test_full_nodes_that_exchange_tasks_do_so_in_one_step() -> None:
    problem = StepProblem.of([5, 5, 5, 5], [1] * 4, [0, 0, 1, 1], 2, 0)
    plan = step_plan(problem, (1, 0, 0, 1))
    for exact_moves in (0, 12):
        made = mini_migrations(problem, plan, max_tasks=1, exact_moves=exact_moves)
        assert [step.overloaded for step in made.steps] == [()]
        assert made.proven


def test_an_exchange_that_one_move_a_batch_cannot_make_is_reported_with_its_excess() -> None:
    problem = StepProblem.of([5, 5, 5, 5], [1] * 4, [0, 0, 1, 1], 2, 0)
    plan = step_plan(problem, (1, 0, 0, 1))
    made = mini_migrations(problem, plan, max_tasks=1, per="batch")
    first, second = made.steps
    assert first.overloaded in ((Overload(0, 5.0, 5.0),), (Overload(1, 5.0, 5.0),))
    assert second.overloaded == ()
    assert (raises(made), made.proven) == (True, True)


@pytest.mark.parametrize("exact_moves", [0, 12])
def test_a_node_gives_before_it_takes(exact_moves: int) -> None:
    """Node 1 is full: what it gives to node 2 goes first, what it takes from node 0 after."""
    problem = StepProblem.of([4, 4, 4, 4], [1] * 4, [0, 0, 1, 1], 3, 0.5)
    plan = step_plan(problem, (0, 1, 1, 2))
    made = mini_migrations(problem, plan, max_tasks=1, per="batch", exact_moves=exact_moves)
    assert [[move.task for move in moves] for moves in moves_of(made)] == [[3], [1]]
    assert not raises(made)


@pytest.mark.parametrize("exact_moves", [0, 12])
def test_nodes_already_over_are_relieved_first_and_never_raised(exact_moves: int) -> None:
    work = [6, 6, 6, 1, 1, 1]
    problem = StepProblem.of(work, [1] * 6, [0, 0, 0, 1, 1, 1], 3, 0.4)
    plan = step_plan(problem, (0, 1, 2, 2, 2, 2))
    made = mini_migrations(problem, plan, max_tasks=2, per="batch", exact_moves=exact_moves)
    assert [move.task for move in made.steps[0].moves] == [1, 2]
    assert not raises(made)


def test_a_long_ring_of_full_nodes_turns_in_one_step() -> None:
    nodes = 1500
    problem = StepProblem.of([3] * nodes, [1] * nodes, list(range(nodes)), nodes, 0)
    plan = step_plan(problem, tuple((node + 1) % nodes for node in range(nodes)))
    made = mini_migrations(problem, plan, max_tasks=1, exact_moves=0)
    assert len(made.steps) == 1
    assert made.proven


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
    st.one_of(st.none(), st.integers(1, 3)),
    st.one_of(st.none(), st.integers(0, 12)),
)
@settings(max_examples=200)
def test_no_way_to_group_tasks_takes_fewer_steps_than_the_caps_ask_for(
    sizes: list[int], tasks: int | None, size: int | None
) -> None:
    caps = Caps(tasks, size, "batch")
    counts = []
    for steps in product(range(len(sizes)), repeat=len(sizes)):
        groups = [[s for s, at in zip(sizes, steps, strict=True) if at == i] for i in set(steps)]
        if all(caps.admit(len(group), sum(group)) for group in groups):
            counts.append(len(groups))
    assert caps.fewest_steps(sizes) <= min(counts)


@pytest.mark.parametrize("per", ["node", "batch"])
def test_thousands_of_moves_between_nodes_with_some_room_raise_none(
    per: Literal["node", "batch"],
) -> None:
    rng = np.random.default_rng(5)
    tasks, nodes = 3000, 150
    work, state = rng.integers(80, 120, size=tasks), rng.integers(1, 30, size=tasks)
    scattered = rng.permutation(np.arange(tasks) % nodes).tolist()
    problem = StepProblem.of(work, state, scattered, nodes, 0.2)
    plan = step_plan(problem, tuple(j * nodes // tasks for j in range(tasks)))
    made = mini_migrations(problem, plan, max_tasks=4, max_bytes=70, per=per)
    assert sorted(move for moves in moves_of(made) for move in moves) == list(plan.moves)
    assert all(within_caps(moves, per, max_tasks=4, max_bytes=70) for moves in moves_of(made))
    assert [step.overloaded for step in made.steps] == [()] * len(made.steps)
    assert made.proven


def test_a_task_larger_than_the_cap_travels_alone_and_is_named() -> None:
    problem = StepProblem.of([1] * 4, [2, 9, 2, 2], [0, 0, 0, 0], 2, 1)
    plan = step_plan(problem, (1, 1, 1, 0))
    made = mini_migrations(problem, plan, max_bytes=4)
    assert made.oversized == (1,)
    assert sorted([move.task for move in moves] for moves in moves_of(made)) == [[0, 2], [1]]


def test_a_cap_per_node_lets_other_nodes_receive_next_to_an_oversized_task() -> None:
    problem = StepProblem.of([1] * 3, [9, 2, 2], [0, 0, 0], 3, 2)
    plan = step_plan(problem, (1, 2, 2))
    per_node = mini_migrations(problem, plan, max_bytes=4, per="node")
    per_batch = mini_migrations(problem, plan, max_bytes=4, per="batch")
    assert (len(per_node.steps), len(per_batch.steps)) == (1, 2)


def test_steps_are_as_few_as_the_cap_allows_where_nothing_is_in_the_way() -> None:
    problem = StepProblem.of([1] * 40, [1] * 40, [0] * 40, 2, 1)
    plan = step_plan(problem, tuple([0] * 9 + [1] * 31))
    assert len(mini_migrations(problem, plan, max_tasks=4).steps) == 8


def test_a_plan_that_moves_nothing_has_no_step() -> None:
    problem = StepProblem.of([1, 1], [1, 1], [0, 1], 2, 0)
    made = mini_migrations(problem, step_plan(problem, (0, 1)), max_tasks=1)
    assert made == MiniMigrations((), (), proven=True)


def test_a_loose_limit_far_beyond_all_work_is_no_trouble() -> None:
    problem = StepProblem.of([1.5, 2], [1, 1], [0, 0], 2, 1e90)
    plan = step_plan(problem, (0, 1))
    made = mini_migrations(problem, plan, max_tasks=10**30, max_bytes=1e99)
    assert made.steps == (MiniStep(plan.moves, ()),)


@pytest.mark.parametrize(
    ("settings_given", "field"),
    [
        ({}, "max_tasks"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"max_bytes": -1}, "max_bytes"),
        ({"max_bytes": float("nan")}, "max_bytes"),
        ({"max_tasks": 1, "per": "rack"}, "per"),
        ({"max_tasks": 1, "exact_moves": -1}, "exact_moves"),
        ({"max_tasks": 1, "exact_moves": 40}, "exact_moves"),
    ],
)
def test_wrong_caps_are_named(settings_given: dict[str, Any], field: str) -> None:
    problem = StepProblem.of([1, 1], [1, 1], [0, 1], 2, 0)
    with pytest.raises(ProblemError) as refused:
        mini_migrations(problem, step_plan(problem, (0, 1)), **settings_given)
    assert refused.value.field == field


def test_a_plan_for_another_problem_is_refused() -> None:
    problem = StepProblem.of([1, 1], [1, 1], [0, 1], 2, 0)
    elsewhere = StepProblem.of([1, 1], [1, 1], [1, 1], 2, 0)
    smaller = StepProblem.of([1], [1], [0], 2, 0)
    for plan in (step_plan(elsewhere, (0, 0)), step_plan(smaller, (1,))):
        with pytest.raises(ProblemError, match="plan"):
            mini_migrations(problem, plan, max_tasks=1)
