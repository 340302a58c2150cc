"""Spares: a scale-out takes an executor that is ready, and the next one is prepared afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.builders import QUERY
from tests.core.harness import Harness
from tests.core.scenes import POLICY, harness, until_moving

from elastream.core.events import (
    Cancel,
    DetachRequested,
    Grow,
    MoveRequested,
    Release,
    ScaleRequested,
    Tick,
    Warm,
)
from elastream.core.migrator.growing import Growing
from elastream.core.migrator.moving import Moving
from elastream.core.policy import Policy
from elastream.core.steady import Steady
from elastream.goals.by_hand import ByHand
from elastream.model.errors import ProblemError

SPARE = replace(POLICY, goal=ByHand(), spares=1)


def ids(run: Harness) -> tuple[list[str], list[str]]:
    """Who is at work, and who is a spare."""
    return [e.id for e in run.state.executors], [e.id for e in run.state.spares]


def with_spare(policy: Policy = SPARE, **more: float) -> Harness:
    """Two executors at work and a warm spare."""
    run = harness({QUERY: 500.0}, policy=policy, **more)  # type: ignore[arg-type]
    run.seconds(10)
    return run


def spare_reasons(run: Harness) -> list[str]:
    return [decision.reason for decision in run.decisions if decision.kind == "spare"]


def test_a_spare_comes_and_is_warmed_once_something_was_measured() -> None:
    run = harness({QUERY: 500.0}, policy=SPARE)
    assert not run.pending, "nothing is known yet"
    run.batches(2, answering=False)
    assert [type(action) for action in run.pending] == [Grow]
    assert run.pending[0].total == 3  # type: ignore[union-attr]
    run.answer()
    assert ids(run) == (["0", "1"], ["2"])
    assert [type(action) for action in run.pending] == [Warm]
    run.answer()
    assert [spare.warm for spare in run.state.spares] == [True]
    assert spare_reasons(run)[0] == "1 spare missing: asked for"
    assert spare_reasons(run)[-1].startswith("executor 2 is a warm spare")


def test_the_goal_does_not_see_spares_and_the_log_counts_them() -> None:
    run = with_spare()
    assert [executor.id for executor in run.state.observed.executors] == ["0", "1"]
    assert run.decisions[-1].executors == 3
    assert "1 of them a spare" in run.decisions[0].reason


def test_a_scale_out_takes_the_spare_at_once_and_the_next_one_comes_afterwards() -> None:
    run = with_spare()
    before = len(run.instructions)
    run.feed(ScaleRequested(3))
    first = [type(instruction) for batch in run.instructions[before:] for instruction in batch]
    assert Grow not in first, "it waits for no executor"
    assert Warm not in first
    assert ids(run) == (["0", "1", "2"], [])
    assert "executor 2, a spare, is taken at once" in spare_reasons(run)
    run.seconds(30)
    assert run.kinds.count("done") == 1
    assert set(run.cluster.where().values()) == {"0", "1", "2"}
    assert ids(run) == (["0", "1", "2"], ["3"]), "the next one was prepared"


def test_the_next_spare_waits_until_batches_were_seen_after_the_change() -> None:
    run = with_spare()
    run.feed(ScaleRequested(3))
    while run.state.changed_ms is None:
        run.seconds(1)
    ended = len(run.decisions)
    run.seconds(30)
    later = run.decisions[ended:]
    asked = next(at for at, each in enumerate(later) if "missing: asked for" in each.reason)
    batches = {each.batch for each in later[:asked] if each.batch is not None}
    assert len(batches) >= 3, "as many as a query has to come back to its pace"


def test_nothing_is_prepared_while_a_change_is_under_way() -> None:
    run = with_spare()
    run.feed(ScaleRequested(3))
    while not isinstance(run.state.phase, Moving):
        run.answer()
    run.cluster.obeys = lambda _: False
    run.seconds(3)
    assert isinstance(run.state.phase, Moving)
    assert ids(run) == (["0", "1", "2"], [])


def test_a_larger_scale_out_takes_the_spare_and_asks_for_the_rest() -> None:
    run = with_spare()
    run.feed(ScaleRequested(4))
    assert isinstance(run.state.phase, Growing)
    assert [action.total for action in run.pending if isinstance(action, Grow)] == [4]
    run.seconds(30)
    assert ids(run) == (["0", "1", "2", "3"], []), "none is kept where all are at work"


def test_a_scale_in_keeps_what_is_missing_as_a_spare() -> None:
    run = with_spare()
    run.feed(ScaleRequested(4))
    run.seconds(30)
    before = len(run.instructions)
    run.feed(ScaleRequested(3))
    run.seconds(30)
    released = [i for batch in run.instructions[before:] for i in batch if isinstance(i, Release)]
    assert released == [], "it is kept, not given back"
    assert list(map(len, ids(run))) == [3, 1]
    run.feed(ScaleRequested(2))
    run.seconds(30)
    assert list(map(len, ids(run))) == [2, 1]
    assert len(run.cluster.executors()) == 3, "one spare is enough, the other was given back"


FOLLOWING = replace(POLICY, spares=1)
"""Executors 0.7 busy, 0.6 at most after a scale-in, and a spare."""


def test_a_scale_in_gives_spares_back_until_an_executor_is_above_the_target_again() -> None:
    rates = {QUERY: 1600.0}
    run = harness(rates, policy=FOLLOWING, number=3)
    run.seconds(10)
    assert list(map(len, ids(run))) == [3, 1]
    rates[QUERY] = 1100.0
    run.seconds(60)
    assert list(map(len, ids(run))) == [2, 0], "0.55 busy: a scale-out is far"
    rates[QUERY] = 1300.0
    run.seconds(60)
    assert list(map(len, ids(run))) == [2, 0], "0.65 busy"
    rates[QUERY] = 1480.0
    run.seconds(20)
    assert list(map(len, ids(run))) == [2, 1], "0.74 busy: a scale-out is near"
    rates[QUERY] = 1300.0
    run.seconds(60)
    assert list(map(len, ids(run))) == [2, 1], "it stays until the next scale-in"
    assert run.kinds.count("scale-out") == 0


def test_a_scale_in_to_the_fewest_keeps_what_is_missing_as_a_spare() -> None:
    rates = {QUERY: 1100.0}
    run = harness(rates, policy=FOLLOWING)
    run.seconds(10)
    rates[QUERY] = 400.0
    run.seconds(60)
    assert list(map(len, ids(run))) == [1, 1], "were the only one lost, none would be there"


def test_spares_are_prepared_after_a_scale_out_however_low_the_load() -> None:
    rates = {QUERY: 1600.0}
    run = harness(rates, policy=replace(FOLLOWING, max_executors=5), number=3)
    run.seconds(10)
    rates[QUERY] = 1100.0
    run.seconds(60)
    assert list(map(len, ids(run))) == [2, 0]
    run.feed(ScaleRequested(3))
    while run.state.changed_ms is None or not run.state.phase.resting:
        run.seconds(1)
    assert not run.state.falling


def test_a_spare_that_is_seen_with_state_works() -> None:
    run = with_spare()
    task = next(iter(run.cluster.where()))
    run.cluster.queries[QUERY].preferred[task] = "2"
    run.batches(2, answering=False)
    assert "2" in ids(run)[0]


def test_a_lost_executor_is_replaced_by_the_spare() -> None:
    run = with_spare(replace(POLICY, spares=1, min_executors=2))
    run.cluster.kill("1")
    assert ids(run) == (["0", "2"], []), "taken in the same step"
    run.seconds(30)
    assert set(run.cluster.where().values()) == {"0", "2"}
    assert len(run.state.spares) == 1


def test_a_lost_spare_is_replaced() -> None:
    run = with_spare()
    run.cluster.kill("2")
    assert "lost" in run.kinds
    run.seconds(10)
    assert ids(run) == (["0", "1"], ["3"])


def test_where_no_one_is_left_at_work_the_spare_works() -> None:
    run = with_spare()
    run.cluster.kill("0", at_once=False)
    run.cluster.kill("1")
    assert ids(run) == (["2"], [])


def test_a_scale_out_while_a_spare_is_on_its_way_takes_it() -> None:
    run = harness({QUERY: 500.0}, policy=SPARE)
    run.batches(2, answering=False)
    spare = run.pending[0]
    run.feed(ScaleRequested(3))
    grow = run.pending[1]
    assert isinstance(spare, Grow) and isinstance(grow, Grow)  # noqa: PT018
    assert (spare.total, grow.total) == (3, 3)
    run.seconds(30)
    assert ids(run)[0] == ["0", "1", "2"]
    assert len(run.state.spares) == 1
    assert run.kinds.count("done") == 1


def test_a_spare_that_comes_during_a_scale_in_is_a_spare() -> None:
    run = harness({QUERY: 500.0}, policy=SPARE, number=3)
    run.batches(2, answering=False)
    run.feed(ScaleRequested(2))
    run.seconds(30)
    assert len(run.state.executors) == 2
    assert len(run.state.spares) == 1


def test_no_room_for_a_spare_is_said_and_tried_again_later() -> None:
    run = harness({QUERY: 500.0}, policy=SPARE, slots=2)
    run.seconds(10)
    assert spare_reasons(run)[-1].startswith(
        "1 spare missing: the cluster has no room; tried again in 60 s"
    )
    failed = len(spare_reasons(run))
    run.seconds(40)
    assert len(spare_reasons(run)) == failed
    run.cluster.slots = 5
    run.seconds(30)
    assert ids(run) == (["0", "1"], ["2"])


@pytest.mark.parametrize("stage", [0, 1])
def test_a_failure_is_said_and_holds_up_nothing(stage: int) -> None:
    run = harness({QUERY: 500.0}, policy=SPARE)
    run.batches(2, answering=False)
    for _ in range(stage):
        run.answer()
    run.fail("out of luck")
    assert "out of luck; tried again" in spare_reasons(run)[-1]
    run.seconds(70)
    assert [spare.warm for spare in run.state.spares] == [True]


def test_a_spare_without_an_answer_is_given_up() -> None:
    run = harness({QUERY: 500.0}, policy=SPARE)
    run.batches(2, answering=False)
    (grow,) = run.pending
    instructions = run.feed(Tick(round(run.cluster.now_ms) + 301_000))
    assert Cancel(grow.ticket) in instructions
    assert run.state.preparation is None


def test_leaving_gives_up_a_spare_on_its_way() -> None:
    run = harness({QUERY: 500.0}, policy=SPARE)
    run.batches(2, answering=False)
    (grow,) = run.pending
    assert Cancel(grow.ticket) in run.feed(DetachRequested())


def test_a_person_may_move_tasks_to_a_spare() -> None:
    run = with_spare()
    task = next(iter(run.cluster.where()))
    run.feed(MoveRequested({task: "2"}))
    run.seconds(10)
    assert run.cluster.where()[task] == "2"
    assert "2" in ids(run)[0]


def test_all_executors_given_back_means_the_spare_too() -> None:
    policy = replace(
        POLICY,
        min_executors=0,
        timeouts=replace(POLICY.timeouts, idle_s=5.0),
        cooldown_s=0.0,
        spares=1,
    )
    rates = {QUERY: 500.0}
    run = harness(rates, policy=policy)
    run.seconds(20)
    assert run.state.spares
    rates[QUERY] = 0.0
    run.seconds(60)
    assert run.cluster.executors() == ()
    assert run.kinds.count("lost") == 0


def test_one_too_many_is_given_back() -> None:
    run = with_spare(replace(SPARE, max_executors=3))
    run.cluster._start(1, warm=True)
    run.seconds(10)
    assert len(run.cluster.executors()) == 3
    assert run.state.spares == ()
    assert run.kinds.count("lost") == 0
    assert isinstance(run.state.phase, Steady)


def test_who_comes_unasked_while_none_is_missing_any_more_is_no_spare() -> None:
    run = harness({QUERY: 500.0}, policy=replace(SPARE, max_executors=4, spares=2))
    run.batches(2, answering=False)
    assert [type(action) for action in run.pending] == [Grow]
    run.cluster._start(3, warm=True)
    run.cluster._report_executors()
    assert ids(run) == (["0", "1", "4"], ["2", "3"]), "three at work leave room for one spare"
    run.cluster._start(2, warm=True)
    run.cluster._report_executors()
    assert ids(run) == (["0", "1", "4", "5", "6"], ["2", "3"])


def test_a_spare_that_is_being_given_back_is_not_taken() -> None:
    run = with_spare(replace(SPARE, max_executors=4, spares=2))
    assert list(map(len, ids(run))) == [2, 2]
    run.cluster._start(1, warm=True)
    run.seconds(2, answering=False)
    (release,) = run.pending
    assert isinstance(release, Release)
    run.feed(ScaleRequested(4))
    assert not set(release.ids) & set(ids(run)[0])
    run.seconds(40)
    assert set(run.cluster.where().values()) == run.state.alive
    assert run.kinds.count("done") == 1


def test_the_cost_is_reported() -> None:
    run = with_spare()
    ready_s = run.cluster.now_ms / 1000
    run.seconds(100)
    run.feed(ScaleRequested(3))
    taken = [decision for decision in run.decisions if decision.kind == "spare"][-1]
    assert 100 <= taken.figures["spare_executor_s"] <= 100 + ready_s


def test_advice_keeps_no_spares() -> None:
    run = harness({QUERY: 500.0}, policy=replace(SPARE, advise_only=True))
    run.seconds(10)
    assert len(run.cluster.executors()) == 2


def test_the_same_events_lead_to_the_same_instructions() -> None:
    run = with_spare()
    run.feed(ScaleRequested(3))
    until_moving(run)
    run.seconds(20)
    assert run.replayed() == run.instructions


def test_spares_need_room() -> None:
    with pytest.raises(ProblemError, match="spares: 2 have no room between min_executors 3 and"):
        Policy(min_executors=3, max_executors=4, spares=2)
    with pytest.raises(ProblemError, match="spares"):
        Policy(max_executors=4, spares=-1)
