from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.foresight.mtm.exact import (
    cuts,
    exact_values,
    moved,
    serves,
    transition_problems,
)

from elastream.cli.main import main
from elastream.foresight.ahead.futures import sampled_sequences
from elastream.foresight.mtm.planner import transition
from elastream.foresight.mtm.problem import (
    MigrationChain,
    ProjectionProblem,
    TransitionPlan,
    TransitionProblem,
)
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequencePlan, SequenceProblem
from elastream.foresight.ssm.cuts import cut_of
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible
from elastream_lab.studies.projected_cost import hindsight as hindsight_module
from elastream_lab.studies.projected_cost.hindsight import (
    Hindsight,
    Sampling,
    hindsight,
    migrations_that_matter,
)
from elastream_lab.studies.projected_cost.readings import Readings, readings

STEP = StepProblem.of(
    work=[1, 2, 2, 3, 1, 2, 3, 1],
    state=[6, 8, 9, 7, 7, 9, 7, 6],
    current=[(0, 5), (5, 8)],
    nodes=3,
    tau=0.4,
)
"""The example of the page on transition."""
CHAIN = MigrationChain.of([2, 3, 4], [[0, 0.8, 0.2], [0.2, 0, 0.8], [0.1, 0.9, 0]], 0.9)


def weighted_cost(step: StepProblem, current: Assignment, sizes: list[int], gamma: float) -> float:
    targets = tuple(Target(size, step.target.tau) for size in sizes)
    plan = sequence(SequenceProblem(step.work, step.state, current, targets, gamma))
    assert isinstance(plan, SequencePlan)
    assert plan.status == "optimal"
    return float(plan.weighted_cost)


def test_four_migrations_of_the_example_cost_less_in_hindsight_than_by_the_best_policy() -> None:
    odds = np.array(CHAIN.matrix)
    in_hindsight = 0.0
    for states in product(range(3), repeat=4):
        chance = odds[0, states[0]] * np.prod([odds[z, y] for z, y in pairwise(states)])
        if chance:
            sizes = [CHAIN.sizes[z] for z in states]
            in_hindsight += chance * weighted_cost(STEP, STEP.current, sizes, 1)
    by_policy = exact_values(
        ProjectionProblem(STEP.work, STEP.state, 0.4, replace(CHAIN, gamma=1.0)), sweeps=4
    )[0, (0, 5, 8)]
    assert (round(in_hindsight, 2), round(by_policy, 2)) == (37.38, 38.88)
    sampled = hindsight(
        ProjectionProblem(STEP.work, STEP.state, 0.4, replace(CHAIN, gamma=1.0)),
        STEP.current,
        0,
        sampling=Sampling(sequences=2000, migrations=4),
    )
    assert isinstance(sampled, Hindsight)
    assert abs(sampled.mean - in_hindsight) < 4 * sampled.standard_error
    assert (sampled.sequences, sampled.migrations, sampled.proven) == (2000, 4, 2000)


@given(transition_problems(max_tasks=5, max_nodes=4))
@settings(max_examples=25)
def test_the_table_of_all_partitions_costs_what_planned_sequences_cost(
    problem: TransitionProblem,
) -> None:
    projection = ProjectionProblem(
        problem.step.work, problem.step.state, problem.step.target.tau, problem.chain
    )
    sampling = Sampling(sequences=3, migrations=3)
    listed = hindsight(projection, problem.step.current, problem.state, sampling=sampling)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hindsight_module, "_MOST_LISTED", -1)
        planned = hindsight(projection, problem.step.current, problem.state, sampling=sampling)
    assert isinstance(listed, Infeasible) == isinstance(planned, Infeasible)
    if isinstance(listed, Hindsight) and isinstance(planned, Hindsight):
        assert planned.proven == 3
        assert listed.mean == pytest.approx(planned.mean, rel=1e-6, abs=1e-6)


@given(transition_problems(max_tasks=5, max_nodes=3), st.integers(0, 9))
@settings(max_examples=25)
def test_no_sample_is_above_what_the_policy_moves_on_the_same_migrations(
    problem: TransitionProblem, seed: int
) -> None:
    plan = transition(problem)
    if isinstance(plan, Infeasible) or plan.projected is None:
        return
    found = readings(problem, plan, Sampling(sequences=8, migrations=4, seed=seed))
    assert isinstance(found, Readings)
    drawn = sampled_sequences(problem.chain, problem.state, 4, sequences=8, seed=seed)
    step, gamma = problem.step, problem.chain.gamma
    greedy = [_greedy(step, plan, [problem.chain.sizes[z] for z in states]) for states in drawn]
    assert found.hindsight.mean <= np.mean(greedy) + 1e-6
    assert found.least_total.mean <= plan.step.cost + gamma * np.mean(greedy) + 1e-6


def test_each_distinct_sequence_is_reported_once_it_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hindsight_module, "_MOST_LISTED", -1)
    problem = TransitionProblem.of(STEP, CHAIN)
    plan = transition(problem)
    assert isinstance(plan, TransitionPlan)
    sampling = Sampling(sequences=6, migrations=2)
    reports: list[None] = []
    found = readings(problem, plan, sampling, lambda: reports.append(None))
    assert isinstance(found, Readings)
    drawn = sampled_sequences(CHAIN, problem.state, 2, sequences=6, seed=0)
    assert len(reports) == 2 * len(set(drawn))  # after the plan, and with it


def _greedy(step: StepProblem, plan: TransitionPlan, sizes: list[int]) -> float:
    """Return what one single step after the other moves: what a policy might do, undiscounted."""
    current, total = plan.step.assignment, 0.0
    for size in sizes:
        outcome = single_step(
            StepProblem(step.work, step.state, current, Target(size, step.target.tau))
        )
        assert not isinstance(outcome, Infeasible)
        total += float(outcome.cost)
        current = outcome.assignment
    return total


def test_the_readings_of_a_plan_stand_in_their_order() -> None:
    problem = TransitionProblem.of(STEP, CHAIN)
    plan = transition(problem)
    assert isinstance(plan, TransitionPlan)
    found = readings(problem, plan, Sampling(sequences=100))
    assert isinstance(found, Readings)
    assert found.policy is not None
    assert found.gap is not None
    assert found.total_gap is not None
    assert found.figure_six is not None
    error = 4 * found.hindsight.standard_error
    assert 0 < found.hindsight.mean < found.policy + error < found.figure_six.drawn
    assert found.gap > -error
    assert found.total_gap > -4 * found.least_total.standard_error
    assert found.figure_six.growth > 1
    assert found.figure_six.summed is None


def test_figure_six_is_the_fixed_point_of_its_own_lines() -> None:
    chain = replace(CHAIN, gamma=0.15)
    problem = TransitionProblem.of(STEP, chain)
    plan = transition(problem)
    assert isinstance(plan, TransitionPlan)
    found = readings(problem, plan, Sampling(sequences=2))
    assert isinstance(found, Readings)
    assert found.figure_six is not None
    members = [cut for cut in cuts(8) if any(serves(cut, n, STEP.work, 0.4) for n in (2, 3, 4))]
    place = members.index(cut_of(plan.step.assignment))
    cost = np.array([[moved(STEP.state, p, q) for q in members] for p in members])
    allowed = np.array([[serves(q, n, STEP.work, 0.4) for q in members] for n in (2, 3, 4)])
    for weights, value in (
        (allowed.astype(float), found.figure_six.summed),
        (allowed / allowed.sum(axis=1, keepdims=True), found.figure_six.drawn),
    ):
        values = np.zeros(allowed.shape)
        for _ in range(300):
            onward = [
                (row * (cost + chain.gamma * here)).sum(axis=1)
                for row, here in zip(weights, values, strict=True)
            ]
            values = np.array(chain.matrix) @ np.array(onward)
        assert value == pytest.approx(values[problem.state, place])


def test_sequences_follow_the_odds_and_the_seed() -> None:
    drawn = sampled_sequences(CHAIN, 0, 6, sequences=500, seed=3)
    assert drawn == sampled_sequences(CHAIN, 0, 6, sequences=500, seed=3)
    firsts = [states[0] for states in drawn]
    assert 0 not in firsts
    assert 0.7 < firsts.count(1) / len(firsts) < 0.9
    assert all(z != y for states in drawn for z, y in pairwise(states))


@pytest.mark.parametrize(
    ("gamma", "most", "migrations"), [(0, 24, 1), (0.5, 24, 9), (0.9, 24, 24), (1, 24, 24)]
)
def test_sequences_end_where_migrations_count_for_nothing(
    gamma: float, most: int, migrations: int
) -> None:
    assert migrations_that_matter(gamma, most) == migrations


def test_the_command_prints_every_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = {
        "work": STEP.work,
        "state": STEP.state,
        "current": STEP.current.intervals,
        "nodes": 3,
        "tau": 0.4,
        "chain": {"sizes": CHAIN.sizes, "matrix": CHAIN.matrix, "gamma": 0.8},
    }
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(problem))
    assert main(["study", "projected-cost", str(file), "--sequences", "50"]) == 0
    found = json.loads(capsys.readouterr().out)
    read = found["hindsight"]
    assert (read["sequences"], read["proven"]) == (50, 50)
    assert read["gap"] == pytest.approx(found["policy"] - read["projected"])
    whole = found["least_total"]
    assert whole["of_this_plan"] == pytest.approx(found["cost"] + 0.8 * found["policy"])
    assert whole["cost"] <= whole["of_this_plan"] + 4 * whole["standard_error"]
    assert found["figure_6"]["sum"] is None
    assert found["figure_6"]["drawn"] > found["policy"]
