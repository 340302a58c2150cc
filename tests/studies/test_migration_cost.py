from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.strategies import step_problems

from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.planners.certificate import certify_step
from elastream.planners.rivals.even_split import even_split
from elastream.planners.single_step import single_step
from elastream.studies.migration_cost import CostStudy, figures
from elastream.studies.migration_cost_load import Load
from elastream.studies.migration_cost_run import (
    by_fewest_nodes,
    by_most_nodes,
    hashed,
    run_through,
)


def month(seed: int, tasks: int = 12) -> Load:
    random = np.random.default_rng(seed)
    hours = np.arange(48)
    rate = 60 + 40 * np.sin(hours / 24 * 2 * np.pi) + random.normal(0, 5, 48)
    work = random.poisson(rate[:, None] * random.uniform(0.7, 1.3, tasks))
    nodes = tuple((3 + np.floor((rate - rate.min()) / np.ptp(rate) * 2.99)).astype(int).tolist())
    return Load(work, np.cumsum(work, axis=0), nodes, range(3, 6))


@given(step_problems())
@settings(max_examples=300)
def test_every_tie_rule_costs_what_single_step_costs(problem: StepProblem) -> None:
    flattest, fewest, most = (
        planner(problem) for planner in (single_step, by_fewest_nodes, by_most_nodes)
    )
    if isinstance(flattest, Infeasible):
        assert fewest == most == flattest
        return
    assert isinstance(fewest, StepPlan)
    assert isinstance(most, StepPlan)
    for plan in (fewest, most):
        assert certify_step(problem, plan, contiguous=True).faults == ()
        assert plan.cost == pytest.approx(flattest.cost)
    used = [len(set(plan.assignment.nodes_of_tasks)) for plan in (fewest, flattest, most)]
    assert used == sorted(used)


def test_fewer_tasks_hold_the_same_load() -> None:
    load = month(1)
    half = load.folded(6)
    assert half.work.tolist() == (load.work[:, :6] + load.work[:, 6:]).tolist()
    assert half.state.sum() == load.state.sum()
    with pytest.raises(ProblemError, match="5 does not divide the trace's 12"):
        load.folded(5)


def test_a_migration_is_a_change_of_nodes_and_has_the_work_of_its_interval() -> None:
    load = month(2)
    migrations = load.migrations(1000)
    changes = [t for t in range(1, 48) if load.nodes[t] != load.nodes[t - 1]]
    assert [m.nodes for m in migrations] == [load.nodes[t] for t in changes]
    assert [list(m.work) for m in migrations] == [load.work[t].tolist() for t in changes]
    assert len(load.migrations(3)) == 3


def test_a_threshold_out_of_reach_is_widened_for_all_alike() -> None:
    migrations = month(3).migrations(1000)
    run = run_through(migrations, 3, single_step, 0.0)
    assert run.over_limit == 0
    assert run.state_moved_percent > 0


def test_baselines_move_more() -> None:
    load = month(4)
    migrations = load.migrations(1000)
    careful = run_through(migrations, load.nodes[0], single_step, 0.4).state_moved_percent
    assert careful < run_through(migrations, load.nodes[0], even_split, 0.4).state_moved_percent
    assert careful < hashed(migrations, load.nodes[0], range(5)).state_moved_percent


def test_the_study_makes_every_figure_as_the_contract_has_it() -> None:
    study = CostStudy(month(5), month(6), migrations=12, seeds=3, tasks=12)
    study.check()
    made = [figure.as_json("migration-cost") for make in figures(study) for figure in make()]
    assert [figure["figure"] for figure in made] == [
        "000 fig. 9, 001 fig. 12",
        "000 fig. 10, 001 fig. 13",
        "000 fig. 11, 001 fig. 14",
        "000 fig. 12, 001 fig. 15",
        "000 fig. 14, 001 fig. 17",
    ]
    for figure in made:
        assert list(figure) == ["study", "figure", "data", "rows", "trend_holds", "says"]
        assert figure["rows"]


def test_months_that_do_not_fit_together_are_refused() -> None:
    one, other = month(1), month(2)
    wider = Load(other.work, other.state, other.nodes, range(3, 9))
    with pytest.raises(ProblemError, match="another range of nodes"):
        CostStudy(one, wider, tasks=12).check()
    with pytest.raises(ProblemError, match="does not divide"):
        CostStudy(one, other).check()
