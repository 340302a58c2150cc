from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyarrow import parquet
from tests.strategies import step_problems

from elastream.foresight.ssm.single_step import single_step
from elastream.foresight.traces.folder import commit, write_nodes
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream_lab.rivals.even_split import even_split
from elastream_lab.studies.migration_cost.figures import figures
from elastream_lab.studies.migration_cost.load import Load, read_load
from elastream_lab.studies.migration_cost.rings import Rings
from elastream_lab.studies.migration_cost.run import (
    by_fewest_nodes,
    by_most_nodes,
    run_through,
)
from elastream_lab.studies.migration_cost.study import CostStudy


def month(seed: int, tasks: int = 12) -> Load:
    random = np.random.default_rng(seed)
    hours = np.arange(48)
    rate = 60 + 40 * np.sin(hours / 24 * 2 * np.pi) + random.normal(0, 5, 48)
    work = random.poisson(rate[:, None] * random.uniform(0.7, 1.3, tasks))
    nodes = tuple((3 + np.floor((rate - rate.min()) / np.ptp(rate) * 2.99)).astype(int).tolist())
    state = np.cumsum(work, axis=0)
    return Load(work, state, nodes, range(3, 6), state[-1])


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
    assert run.over_limit_percent == 0
    assert run.state_moved_percent > 0


def test_baselines_move_more() -> None:
    load = month(4)
    migrations = load.migrations(1000)
    careful = run_through(migrations, load.nodes[0], single_step, 0.4).state_moved_percent
    assert careful < run_through(migrations, load.nodes[0], even_split, 0.4).state_moved_percent
    rings = Rings(migrations, load.nodes[0], range(5))
    assert careful < rings.unbounded(0.4).state_moved_percent


def test_a_ring_that_is_bounded_keeps_the_limit_that_the_other_exceeds() -> None:
    load = month(4, tasks=24)
    migrations = load.migrations(1000)
    rings = Rings(migrations, load.nodes[0], range(5))
    free, kept = rings.unbounded(0.4), rings.bounded(0.4)
    assert free.over_limit_percent >= 50
    assert kept.over_limit_percent < 10
    assert kept.imbalance < 0.4 < free.imbalance
    assert rings.bounded(100.0).state_moved_percent == free.state_moved_percent


OF_ONE_LOAD = [
    "000 fig. 9, 001 fig. 12",
    "000 fig. 10, 001 fig. 13",
    "000 fig. 11, 001 fig. 14",
    "free placement that looks ahead",
    "000 fig. 12, 001 fig. 15",
    "000 fig. 12, 001 fig. 15 (time)",
    "000 fig. 14, 001 fig. 17",
    "000 fig. 14, 001 fig. 17 (time)",
    "000 fig. 9, 001 fig. 12 (windows)",
    "a schedule",
]


def test_the_study_makes_every_figure_of_every_load_as_the_contract_has_it() -> None:
    words = CostStudy(month(5), month(6), migrations=4, seeds=2, tasks=12)
    before, after = (replace(month(seed), name="counts of pairs") for seed in (7, 8))
    pairs = CostStudy(before, after, migrations=4, seeds=2, tasks=12)
    for study in (words, pairs):
        study.check()
    makers = figures([words, pairs], ahead_taus=(0.2, 0.4))
    made = [figure.as_json("migration-cost") for make in makers for figure in make()]
    names = [figure["figure"] for figure in made]
    assert names == [
        *(*OF_ONE_LOAD, *OF_ONE_LOAD),
        "000 fig. 9, 001 fig. 12 (loads)",
        "free placement that looks ahead (all months)",
    ]
    for figure in made:
        assert list(figure) == ["study", "figure", "data", "rows", "trend_holds", "says"]
        assert figure["rows"]
    assert str(made[0]["data"]).startswith("word count of made after made, 4 migrations")
    assert str(made[10]["data"]).startswith("counts of pairs of made after made, 4 migrations")


def test_for_every_month_and_tau_it_is_reported_whether_looking_ahead_moves_no_more() -> None:
    months = [CostStudy(month(5), month(6), migrations=8, tasks=12)] * 2
    *each, whole = (make()[0] for make in figures(months, ["ahead"], ahead_taus=(0.3, 0.9)))
    assert len(each) == 2
    assert [row["tau"] for row in whole.rows] == [0.3, 0.9] * 2
    for row in whole.rows:
        moved = {
            entry["planner"]: entry["state_moved_percent"]
            for entry in each[0].rows
            if entry["tau"] == row["tau"]
        }
        ahead = moved.pop("free-ahead")
        assert (row["free_ahead_percent"], row["better_rival_percent"]) == (
            ahead,
            min(moved.values()),
        )
        assert row["reached"] == (ahead <= min(moved.values()) * (1 + 1e-6))
    assert whole.trend_holds == all(row["reached"] for row in whole.rows)


def test_a_schedule_is_planned_in_three_ways() -> None:
    study = CostStudy(month(5), month(6), tasks=12)
    (figure,) = (figure for make in figures([study], ["schedule"]) for figure in make())
    reports = {(row["tau"], row["planner"]): row["state_moved_percent"] for row in figure.rows}
    assert len(reports) == 9
    assert figure.trend_holds == all(
        reports[tau, "schedule"] <= min(reports[tau, "free-step"], reports[tau, "sequence"])
        for tau in (0.2, 0.4, 0.8)
    )


def test_some_figures_alone_are_those_of_the_whole_study() -> None:
    study = CostStudy(month(5), month(6), migrations=8, seeds=3, tasks=12)
    made = [figure.figure for make in figures([study], ["gamma"]) for figure in make()]
    assert made == OF_ONE_LOAD[6:8]


def test_windows_compare_planners_from_many_starts_by_values_of_both_months() -> None:
    study = CostStudy(month(5), month(6), migrations=8, seeds=3, tasks=12)
    (make,) = figures([study], ["windows"])
    (figure,) = make()
    learnt = [(row["values_of"], row["planner"]) for row in figure.rows]
    assert learnt == [
        (month, planner)
        for month in ("before", "same")
        for planner in ("MTM-aware", "MTM-aware, directed")
    ]
    load = study.judged
    migrations = load.migrations(8)
    before = (load.nodes[0], *(migration.nodes for migration in migrations))
    alone = [
        run_through(migrations[s : s + 4], before[s], single_step, 0.4).state_moved_percent
        for s in range(5)
    ]
    assert "5 windows" in figure.data
    for row in figure.rows:
        assert row["single_step_percent"] == pytest.approx(np.mean(alone))
        assert row["difference"] == pytest.approx(row["state_moved_percent"] - np.mean(alone))
        assert 0 <= row["better_in"] <= 5


def test_windows_of_one_month_have_no_other_to_learn_from() -> None:
    only = month(6)
    study = CostStudy(only, only, migrations=8, seeds=3, tasks=12)
    (make,) = figures([study], ["windows"])
    assert {row["values_of"] for row in make()[0].rows} == {"same"}


@pytest.mark.parametrize(
    ("about", "name"),
    [
        ({"text": "text"}, "word count"),
        ({"key": "user", "window_s": 86_400}, "counts by user in a window of 1d"),
        (
            {"text": "text", "patterns": 2, "window_s": 21_600},
            "counts of patterns of up to 2 words in a window of 6h",
        ),
    ],
)
def test_a_load_is_named_by_what_its_trace_counts(
    tmp_path: Path, about: dict[str, object], name: str
) -> None:
    commit(tmp_path, {"settings": about, "report": {"intervals": 2, "tasks": 3}})
    write_nodes(tmp_path, {"min": 2, "max": 4, "nodes": [2, 3]})
    hours = [datetime(2020, 3, 1, hour, tzinfo=UTC) for hour in (0, 1) for _ in range(3)]
    columns = {"work": [1, 2, 3, 4, 5, 6], "keys": [1] * 6, "state_bytes": [9, 9, 9, 3, 4, 6]}
    (tmp_path / "tasks").mkdir()
    table = pa.table({"time": hours, "task": [0, 1, 2, 0, 1, 2], **columns})
    parquet.write_table(table, tmp_path / "tasks" / "part.parquet")
    load = read_load(tmp_path)
    assert load.name == name
    assert load.usual_state.tolist() == [6, 6, 8]  # it shrinks, so the mean: 6.5 to the even 6
    assert load.folded(1).usual_state.tolist() == [20]


def test_months_that_do_not_fit_together_are_refused() -> None:
    one, other = month(1), month(2)
    wider = replace(other, sizes=range(3, 9))
    with pytest.raises(ProblemError, match="another range of nodes"):
        CostStudy(one, wider, tasks=12).check()
    with pytest.raises(ProblemError, match="does not divide"):
        CostStudy(one, other).check()
    with pytest.raises(
        ProblemError, match="holds the word count where `trace` holds the chess club"
    ):
        CostStudy(one, replace(other, name="chess club"), tasks=12).check()
