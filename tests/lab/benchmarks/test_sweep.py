"""Random simulated applications, and what counts as a fault of the loop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from elastream.cli.main import main
from elastream.model.observation import TaskId
from elastream.testing import ClusterSettings, SimulatedTask, Workload, rate_steps
from elastream_lab.benchmarks.sweep.applications import Application, busiest, drawn, evenly
from elastream_lab.benchmarks.sweep.runs import (
    ABOVE,
    BELOW,
    GOALS,
    NO_STATE,
    NOT_ENDED,
    OSCILLATES,
    TOO_FEW,
    ScaleOut,
    Steady,
    scale_outs,
    steady,
    summary,
)

OUT = ScaleOut(7, 4, 6, ("scale-out",), 0, 0.7, 0.7, 0.2, 0.8, ended=True)
SAME = Steady(7, 6, 5, ("scale-in",), 3.2, 0.64, 0.8)


@pytest.mark.parametrize("seed", range(8))
def test_an_application_is_as_busy_as_asked_for_and_the_same_each_time(seed: int) -> None:
    application = drawn(seed, busy=(0.5, 0.6), grown=(0.9, 1.2), executors=(2, 32))
    slots = application.settings.executors * application.slots
    assert 0.5 <= sum(application.asked(0).values()) / slots <= 0.6
    assert 0.9 <= sum(application.asked(60).values()) / slots <= 1.2
    assert application.work(60) == drawn(
        seed, busy=(0.5, 0.6), grown=(0.9, 1.2), executors=(2, 32)
    ).work(60)
    assert 2 <= application.settings.executors <= 32


def test_a_query_does_no_more_than_its_heaviest_tasks_one_after_another() -> None:
    tasks = (SimulatedTask(0, 0, 0.5, 1.0, 1), SimulatedTask(1, 0, 0.5, 3.0, 1))
    load = Workload(tasks, rate_steps({0: 1000}), name="q")
    application = Application((load,), ClusterSettings(executors=2))
    assert application.asked(0) == {TaskId("q", 0, 0): 0.5, TaskId("q", 1, 0): 1.5}
    assert application.work(0) == {TaskId("q", 0, 0): 0.25, TaskId("q", 1, 0): 0.75}


def test_the_busiest_executor_is_judged_by_all_that_it_does() -> None:
    work = {TaskId("q", 0, j): used for j, used in enumerate((0.9, 0.5, 0.4, 0.2))}
    where = dict(zip(work, "abab", strict=True))
    assert busiest(work, where, slots=2) == pytest.approx(0.65)
    assert evenly(work, 2, slots=2) == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (OUT, None),
        (replace(OUT, without_state=1), NO_STATE),
        (replace(OUT, busiest=0.9), ABOVE),
        (replace(OUT, busiest=0.9, possible=0.85, at_most=0.85), None),
        (replace(OUT, busiest=0.9, possible=0.85, changes=()), TOO_FEW),
        (replace(OUT, ended=False), NOT_ENDED),
        (SAME, None),
        (replace(SAME, highest=0.9), BELOW),
        (replace(SAME, changes=("scale-out", "scale-in")), None),
        (replace(SAME, changes=("scale-in", "scale-out")), OSCILLATES),
        (replace(SAME, changes=("rebalance",) * 5), OSCILLATES),
    ],
)
def test_a_fault_has_its_name(found: ScaleOut | Steady, fault: str | None) -> None:
    assert found.faults == (() if fault is None else (fault,))
    assert sum(summary([found])["faults"].values()) == (fault is not None)


def test_changes_under_utilisation_come_to_their_end() -> None:
    outs = summary(list(scale_outs("utilisation", 0, 2)))
    assert outs["applications"] == 2
    assert outs["scaled_out"] >= 1
    assert outs["faults"][NOT_ENDED] == 0


@pytest.mark.parametrize(
    "goal",
    [
        each if each == "utilisation" else pytest.param(each, marks=pytest.mark.slow)
        for each in GOALS
    ],
)
def test_steady_applications_are_run_under_each_goal(goal: str) -> None:
    assert [each.seed for each in steady(goal, 5, 1)] == [5]


def test_faults_are_printed_written_and_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = "elastream_lab.benchmarks.sweep.runs"
    monkeypatch.setattr(f"{runs}.scale_outs", lambda *_: iter([replace(OUT, without_state=2)]))
    monkeypatch.setattr(f"{runs}.steady", lambda *_: iter([SAME, SAME]))
    file = tmp_path / "sweep.json"
    assert main(["bench", "sweep", "--json", str(file)]) == 1
    cases = json.loads(file.read_text())["cases"]
    assert cases["load grows"]["faults"][NO_STATE] == 1
    assert [each["seed"] for each in cases["load grows"]["faulty"]] == [7]
    assert cases["load is steady"]["faulty"] == []
    assert NO_STATE in capsys.readouterr().out
    monkeypatch.setattr(f"{runs}.scale_outs", lambda *_: iter([OUT]))
    assert main(["bench", "sweep"]) == 0
