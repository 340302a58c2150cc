from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from tests.strategies import intervals, taus

from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, SequenceProblem, exact_sum
from elastream.model.plan import Infeasible, SequencePlan
from elastream.planners.certificate import certify_sequence
from elastream.planners.sequence.planner import sequence

Cut = tuple[int, ...]


def cuts_within(problem: SequenceProblem, nodes: int, limit: float) -> list[Cut]:
    tasks = len(problem.work)
    found = []
    for count in range(1, min(nodes, tasks) + 1):
        for inner in combinations(range(1, tasks), count - 1):
            cut = (0, *inner, tasks)
            loads = [exact_sum(problem.work[a:b]) for a, b in pairwise(cut)]
            if max(loads) <= limit * (1 + LOAD_TOLERANCE):
                found.append(cut)
    return found


def moved(state: tuple[Number, ...], old: Cut, new: Cut) -> float:
    """Match old with new intervals so that most state stays (the Hungarian algorithm)."""
    shared = np.array(
        [
            [float(sum(state[max(a, c) : min(b, d)])) for c, d in pairwise(new)]
            for a, b in pairwise(old)
        ]
    )
    rows, columns = linear_sum_assignment(shared, maximize=True)
    return float(sum(state) - shared[rows, columns].sum())


def cheapest(problem: SequenceProblem) -> float | None:
    """Try every cut at every migration."""
    held = problem.current.intervals
    assert held is not None
    reached: dict[Cut, float] = {
        (*sorted(lb for lb, ub in held if lb < ub), len(problem.work)): 0.0
    }
    for target in problem.targets:
        cuts = cuts_within(problem, target.nodes, target.limit(exact_sum(problem.work)))
        if not cuts:
            return None
        reached = {
            cut: min(cost + moved(problem.state, old, cut) for old, cost in reached.items())
            for cut in cuts
        }
    return min(reached.values())


@st.composite
def sequences(draw: st.DrawFn) -> SequenceProblem:
    tasks = draw(st.integers(1, 6))
    unit = draw(st.sampled_from([1, 1, 0.1]))
    numbers = st.lists(st.integers(0, 6), min_size=tasks, max_size=tasks)
    targets = draw(st.lists(st.tuples(st.integers(1, 4), taus), min_size=1, max_size=3))
    return SequenceProblem.of(
        [unit * load for load in draw(numbers)],
        [unit * size for size in draw(numbers)],
        draw(intervals(tasks, 4)),
        targets,
    )


@given(sequences())
def test_it_equals_exhaustive_search(problem: SequenceProblem) -> None:
    best = cheapest(problem)
    plan = sequence(problem)
    if best is None:
        assert isinstance(plan, Infeasible)
    else:
        assert isinstance(plan, SequencePlan)
        assert certify_sequence(problem, plan).faults == ()
        assert plan.cost == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert plan.status == "optimal"


@given(sequences())
@settings(max_examples=500)
def test_a_bound_without_effort_is_still_a_bound(problem: SequenceProblem) -> None:
    best = cheapest(problem)
    plan = sequence(problem, seconds=0)
    if isinstance(plan, SequencePlan):
        assert best is not None
        assert certify_sequence(problem, plan).faults == ()
        assert plan.lower_bound <= best + 1e-9 <= plan.cost + 2e-9


def test_the_sequence_of_table_3_costs_6_where_the_papers_find_9() -> None:
    problem = SequenceProblem.of([1] * 20, [1] * 20, [(0, 13), (13, 20)], [(3, 0.4), (4, 0.4)])
    plan = sequence(problem)
    assert isinstance(plan, SequencePlan)
    assert (plan.status, plan.cost) == ("optimal", 6)


@pytest.mark.parametrize("tau", [0.2, 0.4, 0.8, 1.2])
def test_twenty_tasks_and_three_migrations_are_proven(tau: float) -> None:
    rng = np.random.default_rng(3)
    work, state = rng.integers(20, 60, 20), rng.integers(1, 1000, 20)
    current = [(0, 7), (7, 14), (14, 20)]
    problem = SequenceProblem.of(work, state, current, [(4, tau), (5, tau), (3, tau)])
    plan = sequence(problem)
    assert isinstance(plan, SequencePlan)
    assert certify_sequence(problem, plan).faults == ()
    assert plan.status == "optimal"


def test_a_migration_that_cannot_be_is_named() -> None:
    outcome = sequence(SequenceProblem.of([1, 1, 9], [1] * 3, [(0, 3)], [(1, 0), (2, 0)]))
    assert isinstance(outcome, Infeasible)
    assert outcome.reason.startswith("targets[1]: task 2")
