"""What follows from the batches around a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from elastream.core.decisions import Decision
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.benchmarks.relief.figures import (
    BatchFigures,
    ReliefResult,
    batch_figures,
    bytes_moved,
    evenness,
    fixed_ms,
)
from elastream_lab.benchmarks.relief.run import predicted_ms

CONTRACT = {
    "shape",
    "change",
    "planner",
    "slots",
    "exact",
    "batch_ms",
    "state_bytes_moved",
    "executors_without_state",
}


def batch(
    where: Mapping[int, Sequence[str]],
    *,
    run_ms: float = 100.0,
    duration_ms: float = 1000.0,
    waited_ms: float = 0.0,
    query: str = "q",
) -> BatchObservation:
    """Partition j of operator i ran on ``where[i][j]``; every task as long."""
    tasks = tuple(
        TaskObservation(TaskId(query, operator, j), executor, run_ms, 10, 10, 1000)
        for operator, executors in where.items()
        for j, executor in enumerate(executors)
    )
    return BatchObservation(
        query, "run", 1, duration_ms, 10, None, 0, None, tasks, waited_ms=waited_ms
    )


def result(*, exact: bool = True, predicted_by: str = "elastream") -> ReliefResult:
    return ReliefResult(
        shape="two-stages",
        change=(2, 4),
        planner="free-step",
        slots=1,
        query="two_stages_1",
        batch_ms=BatchFigures(3500, 2000, 2050, 1980),
        simulated_ms=2000,
        predicted_by=predicted_by,
        state_bytes_moved=1000,
        executors_without_state=0,
        fixed_ms=(500.0, 520.0),
        waited_ms=(0.0, 0.0),
        evenness=1.03,
        seconds=20.0,
        machine_load=(2.0, 3.0),
        outcome="done",
        exact=exact,
    )


def test_the_fixed_part_is_what_no_stage_and_no_wait_took() -> None:
    one = batch({0: "aabb", 1: "aaab"}, duration_ms=900, waited_ms=50)
    assert fixed_ms(one, 1) == 900 - 200 - 300 - 50
    assert fixed_ms(one, 2) == 900 - 100 - 200 - 50, "three tasks on two slots take two rounds"


def test_a_stage_takes_its_longest_task_at_least() -> None:
    assert fixed_ms(batch({0: "ab"}, duration_ms=150), 4) == 50


def test_the_ideal_spreads_each_stage_and_the_prediction_takes_the_places_after() -> None:
    before = {"q": [batch({0: "aabb", 1: "aabb"}, duration_ms=500)]}
    after = {"q": [batch({0: "aabb", 1: "abcd"}, duration_ms=420)]}
    figures = batch_figures(before, after, "q", 1, 4)
    assert figures == BatchFigures(before=500, predicted=400, measured=420, ideal=300)
    assert evenness(after["q"], 1, 4) == 1.5


def test_tasks_without_state_are_a_stage_that_is_spread_evenly() -> None:
    outside_ms = {"a": 120.0, "b": 80.0}
    before = {"q": [replace(batch({0: "aabb"}, duration_ms=500), outside_ms=outside_ms)]}
    assert fixed_ms(before["q"][0], 1) == 500 - 200 - 100
    after = {"q": [replace(batch({0: "abcd"}, duration_ms=350), outside_ms=outside_ms)]}
    figures = batch_figures(before, after, "q", 1, 4)
    assert figures == BatchFigures(before=500, predicted=350, measured=350, ideal=350)


def test_queries_that_always_compete_are_not_quicker_than_all_their_work() -> None:
    before = {name: [batch({0: "aabb"}, query=name, duration_ms=420)] for name in "pq"}
    after = {name: [batch({0: "aacd"}, query=name, duration_ms=400)] for name in "pq"}
    waits = {
        name: [batch({0: "aabb"}, query=name, duration_ms=420, waited_ms=200)] for name in "pq"
    }
    assert batch_figures(before, after, "q", 1, 4).ideal == 220 + 100
    figures = batch_figures(waits, after, "q", 1, 4)
    assert (figures.predicted, figures.ideal) == (400, 200)


def test_bytes_moved_are_those_of_tasks_that_run_elsewhere() -> None:
    assert bytes_moved([batch({0: "aabb"})], [batch({0: "abbc"})]) == 2000


def test_what_elastream_predicted_is_taken_from_its_decisions() -> None:
    def decision(**figures: Any) -> Decision:
        return Decision(0, None, "done", "it is", 4, figures=figures)

    assert predicted_ms([decision()], "q") is None
    assert predicted_ms([decision(predicted_batch_ms={"q": 7.0}), decision()], "q") == 7.0
    assert predicted_ms([decision(predicted_batch_ms={"p": 7.0})], "q") is None


def test_the_summary_has_what_the_contract_names() -> None:
    fields = result().as_json()
    assert fields.keys() >= CONTRACT
    assert fields["change"] == [2, 4]
    assert fields["batch_ms"] == {
        "before": 3500,
        "predicted": 2000,
        "measured": 2050,
        "ideal": 1980,
    }


@pytest.mark.parametrize("exact", [True, False])
def test_a_result_says_whether_it_was_exact(exact: bool) -> None:
    assert result(exact=exact).as_json()["exact"] is exact
