from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from tests.strategies import intervals, taus

from elastream.foresight.oms.chain import Chain, chain_of
from elastream.foresight.oms.intervals import graph_within
from elastream.foresight.oms.planner import EFFORT, sequence
from elastream.foresight.oms.pool import CutPool
from elastream.foresight.oms.prices import Ascent, CutPrices, potential
from elastream.foresight.oms.problem import SequencePlan, SequenceProblem, certify_sequence
from elastream.foresight.oms.sweep import sweep
from elastream.foresight.oms.weights import StepWeights
from elastream.foresight.ssm.single_step import single_step
from elastream.model.checks import Number
from elastream.model.errors import ProblemError
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, Target, exact_sum
from elastream.model.plan import Infeasible, StepPlan

Cut = tuple[int, ...]

gammas = st.sampled_from([0, 0.3, 0.5, 0.8, 1])


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
    """Try every cut at every migration; return the least weighted cost."""
    held = problem.current.intervals
    assert held is not None
    reached: dict[Cut, float] = {
        (*sorted(lb for lb, ub in held if lb < ub), len(problem.work)): 0.0
    }
    for i, target in enumerate(problem.targets):
        cuts = cuts_within(problem, target.nodes, target.limit(exact_sum(problem.work)))
        if not cuts:
            return None
        reached = {
            cut: min(
                cost + problem.gamma**i * moved(problem.state, old, cut)
                for old, cost in reached.items()
            )
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
        draw(gammas),
    )


def whole_chain(problem: SequenceProblem) -> Chain:
    """Return the chain of all migrations, none left out."""
    held = problem.current.intervals
    assert held is not None
    current = (*sorted(lb for lb, ub in held if lb < ub), len(problem.work))
    work = np.array([exact_sum(problem.work[:x]) for x in range(len(problem.work) + 1)], float)
    limits = [target.limit(exact_sum(problem.work)) for target in problem.targets]
    graphs = [
        graph_within(work, limit * (1 + LOAD_TOLERANCE), target.nodes)
        for limit, target in zip(limits, problem.targets, strict=True)
    ]
    return chain_of(problem.state, current, graphs, StepWeights.of(problem).of_steps)


def planned(problem: SequenceProblem, *, effort: float = EFFORT) -> SequencePlan:
    """Return a plan that the certificate finds no fault with."""
    plan = sequence(problem, effort=effort)
    assert isinstance(plan, SequencePlan)
    assert certify_sequence(problem, plan).faults == ()
    return plan


@settings(max_examples=min(1200, settings().max_examples))
@given(sequences())
def test_it_equals_exhaustive_search(problem: SequenceProblem) -> None:
    best = cheapest(problem)
    if best is None:
        assert isinstance(sequence(problem), Infeasible)
    else:
        plan = planned(problem)
        assert plan.weighted_cost == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert plan.status == "optimal"


@given(sequences(), st.sampled_from([0, 120, 600]))
@settings(max_examples=500)
def test_a_bound_without_effort_is_still_a_bound(problem: SequenceProblem, effort: float) -> None:
    best = cheapest(problem)
    if best is not None:
        plan = planned(problem, effort=effort)
        assert plan.lower_bound <= best + 1e-9 <= plan.weighted_cost + 2e-9


@given(sequences(), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_whatever_the_prices_sweep_and_pool_find_the_best_and_the_bound_holds(
    problem: SequenceProblem, random: Random
) -> None:
    best = cheapest(problem)
    assume(best is not None and sum(problem.state) > 0)
    chain = whole_chain(problem)
    most = int(chain.states[0][-1])
    inner = [[random.randint(-most, most) for _ in g.start] for g in chain.graphs[1:-1]]
    ends = (np.zeros_like(graph.start) for graph in (chain.graphs[0], chain.graphs[-1]))
    prices = CutPrices(
        (next(ends), *(np.array(each) for each in inner), next(ends)),
        (0, *(random.randint(0, most) for _ in chain.graphs[1:])),
    )
    guide = potential(chain, prices)
    swept = sweep(chain, guide, -chain.unit, 1_000_000)
    assert swept.kept is not None
    assert float(chain.tick * (chain.total - swept.kept)) == pytest.approx(best, abs=1e-9)
    pool, ascent = CutPool(chain, 1000), Ascent(chain)
    for step, target in enumerate(problem.targets, start=1):
        for cut in cuts_within(problem, target.nodes, target.limit(exact_sum(problem.work))):
            pool.add(step, cut)
    assert pool.best()[0] == swept.kept
    for _ in range(5):
        ascent.move(swept.kept)
    assert min(guide.bound, ascent.least) >= swept.kept
    assert potential(chain, CutPrices.zero(chain)).bound <= chain.total


@given(sequences())
@settings(max_examples=300)
def test_with_gamma_1_the_weighted_cost_is_the_state_moved(problem: SequenceProblem) -> None:
    plan = sequence(replace(problem, gamma=1.0))
    assert plan == sequence(replace(problem, gamma=1))
    if isinstance(plan, SequencePlan):
        assert plan.weighted_cost == plan.cost == plan.lower_bound


@given(sequences(), st.sampled_from([0, 120, 600]))
@settings(max_examples=500)
def test_after_a_migration_that_can_stay_all_others_count_gamma_times(
    problem: SequenceProblem, effort: float
) -> None:
    if isinstance(sequence(problem, effort=0), SequencePlan):
        plan = planned(problem, effort=effort)
        loose = Target(problem.current.nodes, 1000)
        after = planned(replace(problem, targets=(loose, *problem.targets)), effort=effort)
        assert after.weighted_cost == pytest.approx(float(problem.gamma * plan.weighted_cost))
        assert after.lower_bound == pytest.approx(float(problem.gamma * plan.lower_bound))


@given(sequences(), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=300)
def test_the_weighted_cost_does_not_fall_with_gamma(
    problem: SequenceProblem, one: float, other: float
) -> None:
    lower, higher = (replace(problem, gamma=gamma) for gamma in sorted((one, other)))
    if isinstance(sequence(problem), SequencePlan):
        most = planned(higher).weighted_cost
        assert planned(lower).weighted_cost <= most * (1 + 1e-9) + 1e-9


@given(sequences())
@settings(max_examples=300)
def test_with_gamma_0_each_migration_moves_the_least_from_where_the_last_one_ended(
    problem: SequenceProblem,
) -> None:
    problem = replace(problem, gamma=0)
    if isinstance(sequence(problem), SequencePlan):
        plan = planned(problem, effort=0)
        assert (plan.status, plan.weighted_cost) == ("optimal", plan.steps[0].cost)
        current = problem.current
        for target, step in zip(problem.targets, plan.steps, strict=True):
            alone = single_step(StepProblem(problem.work, problem.state, current, target))
            assert isinstance(alone, StepPlan)
            assert step.cost == pytest.approx(alone.cost)
            current = step.assignment


def test_a_stricter_migration_is_gone_to_early_only_where_all_count_the_same() -> None:
    both = SequenceProblem.of([1] * 20, [1] * 20, [(0, 20), (20, 20)], [(2, 0.8), (2, 0)])
    assert planned(both).cost == 10
    half = planned(replace(both, gamma=0.5))
    assert [step.cost for step in half.steps] == [2, 8]
    assert (half.status, half.weighted_cost, half.lower_bound) == ("optimal", 6, 6)


def test_state_is_moved_later_where_later_counts_less() -> None:
    # to keep the first migration cheap makes the second dear
    table_3 = SequenceProblem.of([1] * 20, [1] * 20, [(0, 13), (13, 20)], [(3, 0.4), (4, 0.4)])
    costs = [planned(replace(table_3, gamma=gamma)).weighted_cost for gamma in (0, 0.25, 0.5, 1)]
    assert costs == [4, 4.5, 5, 6]


def test_what_counts_next_to_nothing_is_not_searched_and_still_moves_little() -> None:
    rng = np.random.default_rng(7)
    work, state = rng.integers(20, 60, 20), rng.integers(1, 1000, 20)
    targets = [(4, 0.4), (5, 0.4), (3, 0.4), (6, 0.4)]
    faint = SequenceProblem.of(work, state, [(0, 7), (7, 14), (14, 20)], targets, 1e-9)
    plan = planned(faint)
    assert plan.status == "optimal"
    assert plan.cost <= 1.5 * planned(replace(faint, gamma=1)).cost


def test_sizes_beyond_machine_integers_are_weighed_too() -> None:
    large = SequenceProblem.of(
        [1] * 20, [10**40 + 1] * 20, [(0, 20), (20, 20)], [(2, 0.8), (2, 0)], 0.3
    )
    plan = planned(large)
    assert plan.status == "optimal"
    assert plan.weighted_cost == pytest.approx(4.4e40)


@pytest.mark.parametrize(
    ("gamma", "reason"),
    [
        (-0.1, "-0.1 is negative; give zero or more"),
        (1.01, "1.01 is too large; the most is 1"),
        (float("nan"), "nan is not finite, or above 1e100"),
        (True, "True is not a number"),
        (None, "None is not a number"),
    ],
)
def test_a_gamma_that_cannot_be_is_named(gamma: float, reason: str) -> None:
    with pytest.raises(ProblemError, match=f"^gamma: {reason}$"):
        SequenceProblem.of([1], [1], [(0, 1)], [(1, 0)], gamma)


def test_the_certificate_finds_a_wrong_weighted_cost_and_a_bound_above_it() -> None:
    problem = SequenceProblem.of([1] * 20, [1] * 20, [(0, 20)], [(2, 0.8), (2, 0)], 0.5)
    plan = planned(problem)
    wrong = replace(plan, weighted_cost=plan.cost, lower_bound=plan.cost)
    assert certify_sequence(problem, wrong).faults == (
        "weighted_cost is said to be 10 and is 6.0",
        "lower bound 10 is above the cost 6.0",
    )


def test_the_sequence_of_table_3_costs_6_where_the_papers_find_9() -> None:
    problem = SequenceProblem.of([1] * 20, [1] * 20, [(0, 13), (13, 20)], [(3, 0.4), (4, 0.4)])
    plan = planned(problem)
    assert (plan.status, plan.cost) == ("optimal", 6)


@pytest.mark.parametrize("gamma", [0.3, 1])
@pytest.mark.parametrize("tau", [0.2, 0.4, 0.8, 1.2])
def test_twenty_tasks_and_three_migrations_are_proven(tau: float, gamma: Number) -> None:
    rng = np.random.default_rng(3)
    work, state = rng.integers(20, 60, 20), rng.integers(1, 1000, 20)
    current = [(0, 7), (7, 14), (14, 20)]
    problem = SequenceProblem.of(work, state, current, [(4, tau), (5, tau), (3, tau)], gamma)
    assert planned(problem).status == "optimal"


def test_a_migration_that_cannot_be_is_named() -> None:
    outcome = sequence(SequenceProblem.of([1, 1, 9], [1] * 3, [(0, 3)], [(1, 0), (2, 0)]))
    assert isinstance(outcome, Infeasible)
    assert outcome.reason.startswith("targets[1]: task 2")
