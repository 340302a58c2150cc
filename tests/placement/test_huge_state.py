"""State too large for machine numbers: what is called optimal is, and bounds are bounds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import accumulate, combinations, pairwise, permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.exhaustive import cheapest_then_flattest
from tests.strategies import intervals, taus

from elastream.foresight.ahead.planner import free_ahead
from elastream.foresight.ahead.problem import FreeAheadPlan, FreeAheadProblem
from elastream.foresight.mtm.planner import transition
from elastream.foresight.mtm.problem import MigrationChain, TransitionPlan, TransitionProblem
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequencePlan, SequenceProblem, certify_sequence
from elastream.foresight.ssm.cuts import cut_of
from elastream.foresight.ssm.single_step import single_step
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream.placement.free_step.planner import free_step
from elastream.placement.state_ticks import PROVEN

sizes = st.one_of(
    st.integers(0, 9),
    *(st.integers(base, base + 9) for base in (2**53, 2**57, 2**60, 10**30)),
)


@st.composite
def problems(draw: st.DrawFn, max_tasks: int = 5, max_nodes: int = 3) -> StepProblem:
    """One migration of whole sizes, of which some are huge and differ by little."""
    tasks = draw(st.integers(1, max_tasks))
    work = draw(st.lists(st.integers(1, 4), min_size=tasks, max_size=tasks))
    state = draw(st.lists(sizes, min_size=tasks, max_size=tasks))
    current = draw(intervals(tasks, max_nodes))
    return StepProblem.of(work, state, current, draw(st.integers(1, max_nodes)), draw(taus))


def check(problem: StepProblem, outcome: StepPlan | Infeasible, best: int | None) -> None:
    if best is None:
        assert isinstance(outcome, Infeasible)
        return
    assert isinstance(outcome, StepPlan)
    assert certify_step(problem, outcome).faults == ()
    assert type(outcome.lower_bound) is int
    assert outcome.lower_bound <= best <= outcome.cost
    if outcome.status == "optimal":
        assert outcome.cost == best


def cheapest_anywhere(problem: StepProblem) -> int | None:
    """Return the least cost of any node for any task, in Python's own integers."""
    limit = problem.limit * (1 + LOAD_TOLERANCE)
    found = []
    for nodes in product(range(problem.nodes_after), repeat=len(problem.work)):
        loads = [0.0] * problem.nodes_after
        for task, node in enumerate(nodes):
            loads[node] += problem.work[task]
        if max(loads) <= limit and len(set(nodes)) <= problem.target.nodes:
            moves = zip(problem.state, problem.current.nodes_of_tasks, nodes, strict=True)
            found.append(sum(int(size) for size, old, new in moves if old != new))
    return min(found, default=None)


@given(problems())
@settings(max_examples=200, deadline=None)
def test_single_step(problem: StepProblem) -> None:
    best = cheapest_then_flattest(problem)
    check(problem, single_step(problem), None if best is None else int(best[0]))


@given(problems(), st.data())
@settings(max_examples=100, deadline=None)
def test_single_step_with_copies(problem: StepProblem, data: st.DataObject) -> None:
    pairs = st.tuples(
        st.integers(0, len(problem.work) - 1), st.integers(0, problem.current.nodes - 1)
    )
    copies = data.draw(st.frozensets(pairs, max_size=3))
    away = frozenset(pair for pair in copies if problem.current.nodes_of_tasks[pair[0]] != pair[1])
    problem = replace(problem, copies=away)
    best = cheapest_then_flattest(problem)
    check(problem, single_step(problem), None if best is None else int(best[0]))


@given(problems())
@settings(max_examples=100, deadline=None)
def test_free_step(problem: StepProblem) -> None:
    check(problem, free_step(problem), cheapest_anywhere(problem))


Cut = tuple[int, ...]


def cheapest_sequence(problem: SequenceProblem) -> Fraction | None:
    """Try every cut at every migration; return the least weighted cost."""
    tasks, total = len(problem.work), sum(problem.work)
    prefix = (0, *accumulate(int(size) for size in problem.state))

    @cache
    def moved(old: Cut, new: Cut) -> int:
        few, many = sorted((list(pairwise(old)), list(pairwise(new))), key=len)
        kept = (
            sum(
                max(0, prefix[min(b, d)] - prefix[max(a, c)])
                for (a, b), (c, d) in zip(few, chosen, strict=True)
            )
            for chosen in permutations(many, len(few))
        )
        return prefix[-1] - max(kept)

    reached = {cut_of(problem.current): Fraction(0)}
    for i, target in enumerate(problem.targets):
        limit = target.limit(total) * (1 + LOAD_TOLERANCE)
        cuts = [
            cut
            for count in range(min(target.nodes, tasks))
            for inner in combinations(range(1, tasks), count)
            if (cut := (0, *inner, tasks))
            and max(sum(problem.work[a:b]) for a, b in pairwise(cut)) <= limit
        ]
        if not cuts:
            return None
        weight = Fraction(problem.gamma) ** i
        reached = {
            cut: min(cost + weight * moved(old, cut) for old, cost in reached.items())
            for cut in cuts
        }
    return min(reached.values())


@given(problems(max_tasks=4), st.integers(1, 3), taus, st.sampled_from([0, 0.5, 1]))
@settings(max_examples=200, deadline=None)
def test_sequence(step: StepProblem, nodes: int, tau: float, gamma: float) -> None:
    targets = (step.target, Target(nodes, tau))
    problem = SequenceProblem(step.work, step.state, step.current, targets, gamma)
    plan, best = sequence(problem), cheapest_sequence(problem)
    if best is None:
        assert isinstance(plan, Infeasible)
        return
    assert isinstance(plan, SequencePlan)
    assert certify_sequence(problem, plan).faults == ()
    cost = sum(
        (
            Fraction(gamma) ** i * int(move.state)
            for i, step in enumerate(plan.steps)
            for move in step.moves
        ),
        Fraction(0),
    )
    assert best <= cost
    if plan.status == "optimal":
        assert cost == best if gamma in (0, 1) else cost * PROVEN <= best * (PROVEN + 1)
    else:
        assert Fraction(plan.lower_bound) <= best


STATE = (2**60 + 1, 2**60, 3, 2**60 + 2)
"""Rounded to 53 bits the three large ones are equal."""


def test_plans_over_a_chain_are_not_called_optimal_where_state_was_rounded() -> None:
    step = StepProblem.of([1, 1, 1, 1], STATE, [0, 0, 1, 1], 3, 0.8)
    chain = MigrationChain.of([2, 3], [[0.5, 0.5], [0.5, 0.5]], 0.5)
    plan = transition(TransitionProblem.of(step, chain))
    assert isinstance(plan, TransitionPlan)
    assert plan.status == "feasible"
    ahead = free_ahead(FreeAheadProblem.of_chain(step, chain))
    assert isinstance(ahead, FreeAheadPlan)
    assert ahead.status == "feasible"


def test_fractions_are_proven_to_one_part_in_a_billion() -> None:
    step = StepProblem.of([1, 1, 1], [1e30, 0.1, 0.2], [0, 0, 0], 2, 0.4)
    plan = single_step(step)
    assert isinstance(plan, StepPlan)
    assert (plan.status, plan.cost) == ("optimal", 0.2)


def test_state_that_fits_is_planned_to_the_byte() -> None:
    """Of two tasks the one that is a byte smaller moves, though floats are equal."""
    step = StepProblem.of([1, 1], [2**55 + 1, 2**55], [0, 0], 2, 0)
    plan = single_step(step)
    assert isinstance(plan, StepPlan)
    assert (plan.status, plan.cost, plan.lower_bound) == ("optimal", 2**55, 2**55)
