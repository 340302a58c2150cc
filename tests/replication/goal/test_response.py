"""What a row takes: its batch, the wait for it, and the line before it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.replication.goal.scenes import QUERY, executors, looked, observed, seen

from elastream.core.application import Observed
from elastream.model.observation import BatchObservation
from elastream.replication.goal.goal import Replication
from elastream.replication.goal.problem import problem_of
from elastream.replication.goal.response import RowResponse, response_of
from elastream.replication.planner.evaluation import evaluate

WHERE = {0: "00", 1: "0011"}


def batches(duration_ms: float, backlog: int | None = None) -> list[BatchObservation]:
    """A hundred rows a second are worked off."""
    return [
        looked(
            number, WHERE, run_ms={0: 50.0, 1: 400.0}, rows={0: 20, 1: 100},
            duration_ms=duration_ms, backlog=backlog,
        )
        for number in range(6)
    ]  # fmt: skip


def with_trigger(found: Observed, trigger_ms: float | None) -> Observed:
    queries = {name: replace(each, trigger_ms=trigger_ms) for name, each in found.queries.items()}
    return replace(found, queries=queries)


@pytest.mark.parametrize(
    ("trigger_ms", "duration_ms", "backlog", "response"),
    [
        (None, 1000, None, RowResponse(1000, 500)),
        (4000, 1000, None, RowResponse(1000, 2000)),
        (1000, 3000, None, RowResponse(3000, 1500)),
        (4000, 1000, 400, RowResponse(1000, 2000, 0)),
        (4000, 1000, 4000, RowResponse(1000, 2000, 36_000)),
    ],
)
def test_a_row_waits_for_its_batch_and_for_the_line_before_it(
    trigger_ms: float | None, duration_ms: float, backlog: int | None, response: RowResponse
) -> None:
    found = with_trigger(observed(batches(duration_ms, backlog), executors(2)), trigger_ms)
    reports = response_of(found.queries[QUERY])
    assert (reports.batch_ms, reports.wait_ms) == (response.batch_ms, response.wait_ms)
    assert reports.backlog_ms == pytest.approx(response.backlog_ms)
    assert reports.total_ms == pytest.approx(response.total_ms)


def test_rows_that_wait_in_line_break_the_bound_though_batches_are_short() -> None:
    goal = Replication(response_ms=3000, patience=3, period_s=600, cooldown_s=0)
    line = batches(1500, backlog=3000)
    memory = goal.memory()
    for number in range(1, len(line) + 1):
        found = with_trigger(observed(line[:number], executors(2)), 2000)
        memory = goal.after_batch(memory, found, line[number - 1], disturbed=False)
    _, wanted, questions = goal.wanted(memory, found)
    assert len(questions) == 1, "a plan is asked for"
    assert "1500 in its batch, 1000 until that begins, 43000 behind a backlog" in wanted.reason
    assert wanted.figures["slowest_row_ms"] == pytest.approx(45_500)


@pytest.mark.parametrize(("trigger_ms", "more"), [(None, 500), (3000, 1500)])
def test_a_plan_counts_the_wait_for_the_batch(trigger_ms: float | None, more: float) -> None:
    nodes, usual = executors(2), batches(1000)
    found = with_trigger(observed(usual, nodes), trigger_ms)
    problem = problem_of(found, seen(usual, nodes), Replication(response_ms=9000))
    assert problem is not None
    assert evaluate(problem, problem.current or {}).response_ms == pytest.approx(1000 + more)
