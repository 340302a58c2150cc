"""Shortages of partitions as the loop shows them, and pauses for more of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.core.builders import QUERY, RUN, batch
from tests.core.scenes import POLICY, acts, after, attached, kinds, reasons

from elastream.core.events import (
    Answered,
    BatchObserved,
    Cancel,
    DetachRequested,
    Instruction,
    Log,
    QueryJoined,
    QueryLeft,
    RecordSample,
    Repartition,
    ScaleRequested,
    Tick,
)
from elastream.core.explaining import explained
from elastream.core.goal import Failure
from elastream.core.policy import Policy
from elastream.core.ports import Paused, Stopped
from elastream.core.repartitioning import Pausing
from elastream.core.state import LoopState
from elastream.core.steady import Steady
from elastream.goals.by_hand import ByHand
from elastream.model.observation import OperatorGraph

TELLS = replace(POLICY, goal=ByHand(), cooldown_s=0.0)
PAUSES = replace(TELLS, repartition=True)
HOT = [900.0, 100.0]


def about_partitions(reports: Sequence[Instruction]) -> list[str]:
    logs = [each.decision for each in reports if isinstance(each, Log)]
    return [each.reason for each in logs if each.kind in ("partitions", "repartition")]


def batches(
    first: int, number: int, run_ms: Sequence[float], run: str = RUN
) -> list[BatchObserved]:
    where = ["a", "b"] * (len(run_ms) // 2)
    return [
        BatchObserved(batch(first + each, where, run_ms=run_ms, run=run)) for each in range(number)
    ]


def pausing(policy: Policy = PAUSES) -> tuple[LoopState, Repartition]:
    state, report = after(attached("ab", policy=policy), *batches(0, 3, HOT))
    (order,) = [each for each in acts(report) if isinstance(each, Repartition)]
    return state, order


def test_a_shortage_is_reported_once_it_has_lasted_and_again_when_it_is_over() -> None:
    state, report = after(attached("ab", policy=TELLS), *batches(0, 1, HOT))
    assert about_partitions(report) == []
    state, report = after(state, *batches(1, 6, HOT))
    assert len(about_partitions(report)) == 1
    assert "4 partitions in place of 2 would do" in about_partitions(report)[0]
    assert "Too few partitions in query: partition 0 alone needs 0.90" in explained(state)
    state, report = after(state, *batches(7, 5, [100.0, 100.0]))
    assert about_partitions(report) == ["its 2 partitions suffice again"]
    assert "partitions" not in explained(state)


def test_a_load_around_the_mark_is_not_logged_again_and_again() -> None:
    state = attached("ab", policy=TELLS)
    lines: list[str] = []
    for number in range(20):
        state, more = after(state, *batches(number, 1, HOT if number % 2 else [100.0, 100.0]))
        lines += about_partitions(more)
    assert lines == []


def test_a_policy_that_does_not_allow_it_or_only_advises_pauses_nothing() -> None:
    for policy in (TELLS, replace(PAUSES, advise_only=True)):
        state, report = after(attached("ab", policy=policy), *batches(0, 9, HOT))
        assert isinstance(state.phase, Steady)
        assert not [each for each in acts(report) if not isinstance(each, RecordSample)]


def test_a_pause_is_begun_ended_and_logged_with_its_cost() -> None:
    state, order = pausing()
    assert (order.query, order.partitions) == (QUERY, 4)
    assert isinstance(state.phase, Pausing)
    assert f"{QUERY} is paused for 4 partitions." in explained(state)
    spent = {"stop": 0.5, "repartition": 3.0, "start": 1.0}
    state, report = after(
        state,
        QueryLeft(3500, QUERY, RUN, "it has ended"),
        QueryJoined(8000, QUERY, "run 2", OperatorGraph({0: None}), 4),
        Answered(order.ticket, Paused(3200, spent)),
    )
    assert isinstance(state.phase, Steady)
    assert about_partitions(report) == ["it has 4 partitions now, 2 before, and runs again"]
    four = BatchObserved(batch(4, "abab", run="run 2", run_ms=[450, 50, 450, 50], at_ms=9400))
    state, report = after(state, four)
    assert about_partitions(report) == [
        "the pause for 4 partitions cost 6.2 s, first batch included"
    ]
    assert f"{QUERY} was paused for 6.2 s, from 2 to 4 partitions." in explained(state)


def test_a_query_that_stays_stopped_is_reported_as_such() -> None:
    state, order = pausing()
    why = f"query {QUERY} is STOPPED: it was not started again"
    state, report = after(state, Answered(order.ticket, Stopped(why)))
    assert isinstance(state.phase, Steady)
    assert about_partitions(report) == [why]


def test_a_first_batch_that_is_there_before_the_answer_ends_the_pause_all_the_same() -> None:
    state, order = pausing()
    first = BatchObserved(batch(4, "abab", run="run 2", at_ms=7000))
    joined = QueryJoined(6000, QUERY, "run 2", OperatorGraph({0: None}), 4)
    state, report = after(state, joined, first, Answered(order.ticket, Paused(4000)))
    assert about_partitions(report)[1:] == [
        "the pause for 4 partitions cost 3.0 s, first batch included"
    ]


def test_no_second_pause_within_an_hour_also_where_the_first_failed() -> None:
    state, order = pausing()
    state, report = after(state, Answered(order.ticket, Failure("its operator cannot be split")))
    assert about_partitions(report) == ["not repartitioned: its operator cannot be split"]
    state, report = after(state, *batches(3, 20, HOT))
    assert not [each for each in report if isinstance(each, Repartition)]
    state, report = after(state, Tick(3_700_000), *batches(23, 1, HOT))
    assert [each.partitions for each in report if isinstance(each, Repartition)] == [4]


def test_what_was_asked_for_meanwhile_comes_next() -> None:
    state, order = pausing()
    state, report = after(state, ScaleRequested(3))
    assert reasons(report) == ["a change was asked for while one is under way: it comes next"]
    state, report = after(state, Answered(order.ticket, Failure("no")), *batches(3, 1, HOT))
    assert "scale-out" in kinds(report)


def test_a_pause_that_does_not_end_is_left_to_itself() -> None:
    state, order = pausing()
    state, report = after(state, Tick(3_700_000))
    assert Cancel(order.ticket) in report
    assert isinstance(state.phase, Steady)
    state, report = after(state, Answered(order.ticket, Paused(0)))
    assert report == ()


def test_detaching_gives_the_pause_up() -> None:
    state, order = pausing()
    _, report = after(state, DetachRequested())
    assert Cancel(order.ticket) in report


@pytest.mark.parametrize("policy", [TELLS, PAUSES])
def test_the_same_events_lead_to_the_same_instructions(policy: Policy) -> None:
    events = batches(0, 6, HOT)
    assert after(attached("ab", policy=policy), *events) == after(
        attached("ab", policy=policy), *events
    )
