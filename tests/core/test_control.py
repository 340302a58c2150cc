"""What a person on call asks of the loop: pause, resume, another policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.scenes import POLICY, acts, after, attached, harness, kinds, reasons, until_moving

from elastream import ByHand, Movement, Policy, ProblemError, Schedule, Utilisation
from elastream.core.events import (
    Cancel,
    DropCopies,
    ExecutorsChanged,
    PauseRequested,
    Place,
    Release,
    ResumeRequested,
    ScaleRequested,
    Status,
    UpdateRequested,
)
from elastream.core.explaining import explained
from elastream.core.scenes import take_scene
from elastream.core.spares import update_spares
from elastream.core.state import Standbys
from elastream.testing import SimulatedCluster, even_workload, rate_steps, simulated

PAUSE, RESUME = PauseRequested("eve"), ResumeRequested("eve")


def test_while_paused_the_loop_watches_and_reports_what_it_holds_back() -> None:
    run = harness(1900)
    run.feed(PAUSE)
    run.batches(20)
    assert set(run.kinds) == {"attach", "join", "pause", "hold"}
    assert run.decisions[-1].reason.startswith("paused; scale-out to 3 wanted, utilisation")
    assert run.decisions[-1].figures["wanted"] == 3
    run.feed(RESUME)
    run.batches(3)
    assert "scale-out" in run.kinds


def test_a_pause_in_the_middle_of_a_change_leaves_what_moved_and_gives_up_the_rest() -> None:
    policy = replace(POLICY, movement=replace(POLICY.movement, moves_per_batch=1))
    run = harness(1900, policy=policy)
    before = run.cluster.where()
    until_moving(run)
    report = run.feed(PAUSE)
    assert kinds(report) == ["pause", "abandon"]
    assert reasons(report)[0] == (
        "paused, asked for by eve: it watches and decides nothing; "
        "the scale-out under way ends here"
    )
    run.batches(2)
    moved = run.cluster.where()
    assert moved != before
    run.batches(20)
    assert run.cluster.where() == moved
    run.feed(RESUME)
    run.batches(20)
    held = list(moved.values())
    after = list(run.cluster.where().values())
    assert max(map(after.count, after)) < max(map(held.count, held)), "it starts from the truth"


def test_a_pause_cancels_what_is_awaited_and_drops_what_was_to_come_next() -> None:
    state, report = after(
        attached("ab"), ScaleRequested(3), ScaleRequested(4), PauseRequested(None)
    )
    assert state.request is None
    assert state.phase.resting
    assert any(isinstance(each, Cancel) for each in report)
    assert "paused, asked for: " in reasons(report)[-2]
    assert "what was to come next is dropped" in reasons(report)[-2]


def test_while_paused_a_person_may_still_ask_for_changes() -> None:
    run = harness(300)
    run.feed(PAUSE)
    run.feed(ScaleRequested(3, by="eve"))
    run.batches(20)
    assert len(run.cluster.executors()) == 3
    started = next(each for each in run.decisions if each.kind == "scale-out")
    assert started.reason == "scale-out to 3: asked for by eve"
    assert run.state.pause is not None


def test_a_pause_is_refused_twice_and_so_is_going_on_without_one() -> None:
    state, report = after(attached("ab"), PAUSE, PAUSE, RESUME, RESUME)
    assert kinds(report) == ["pause", "refuse", "resume", "refuse"]
    assert "it is paused already" in reasons(report)[1]
    assert "it is not paused" in reasons(report)[3]
    assert state.pause is None


def test_a_batch_that_waits_without_an_executor_gets_one_also_while_paused() -> None:
    policy = replace(POLICY, min_executors=0)
    state, _ = after(attached("", policy=policy), PAUSE)
    _, report = after(state, Status(1000, jobs=1))
    assert "scale-out" in kinds(report)


def test_after_a_loss_nothing_is_decided_while_paused() -> None:
    run = harness(1900)
    run.batches(1)
    run.feed(PAUSE)
    report = run.feed(ExecutorsChanged(round(run.cluster.now_ms), run.cluster.executors()[:1]))
    assert kinds(report)[0] == "lost"
    assert {type(each) for each in acts(report)} <= {Place}, "what ran there goes on elsewhere"
    assert run.state.phase.resting


def test_while_paused_no_spare_is_begun() -> None:
    run = harness(900, policy=replace(POLICY, spares=1))
    run.feed(PAUSE)
    run.batches(20)
    assert "spare" not in run.kinds
    run.feed(RESUME)
    run.batches(20)
    assert "spare" in run.kinds


def test_the_pause_is_shown_and_explained_until_resumed() -> None:
    state, _ = after(attached("ab"), PAUSE)
    assert take_scene(state).loop.guards["paused"].endswith(", asked for by eve")
    assert "Held back: paused since " in explained(state)
    state, _ = after(state, RESUME)
    assert take_scene(state).loop.guards == {}
    assert "Held back" not in explained(state)


# Another policy


def test_another_policy_is_followed_from_now_on_and_logged_field_by_field() -> None:
    run = harness(1900)
    movement = replace(POLICY.movement, moves_per_batch=1)
    policy = replace(POLICY, max_executors=2, tau=0.5, movement=movement)
    run.policy = policy
    (log,) = reasons(run.feed(UpdateRequested(policy, "eve")))
    assert log == (
        "another policy, asked for by eve: max_executors 2 instead of 4, tau 0.5 instead of 0.2, "
        "movement.moves_per_batch 1 instead of 2"
    )
    run.batches(20)
    assert len(run.cluster.executors()) == 2


def test_the_same_policy_changes_nothing() -> None:
    state, report = after(attached("ab"), UpdateRequested(POLICY))
    assert reasons(report) == ["an update was asked for: the policy says that already"]
    assert state.policy is POLICY


def test_a_change_under_way_goes_on_where_the_new_policy_allows_it() -> None:
    run = harness(1900)
    until_moving(run)
    report = run.feed(UpdateRequested(replace(POLICY, tau=0.3)))
    assert reasons(report)[0].endswith("; the scale-out under way goes on")
    run.policy = replace(POLICY, max_executors=2)
    report = run.feed(UpdateRequested(run.policy))
    assert kinds(report) == ["update", "abandon"]
    assert "it leads to 3 executors, and 1 to 2 are allowed now" in reasons(report)[1]


def test_a_change_under_way_ends_where_the_policy_only_advises_from_now_on() -> None:
    run = harness(1900)
    until_moving(run)
    report = run.feed(UpdateRequested(replace(POLICY, advise_only=True)))
    assert "the policy only advises now" in reasons(report)[1]


def test_another_goal_remembers_nothing_and_the_same_one_what_it_did() -> None:
    run = harness(1000)
    run.batches(5)
    memory = run.state.memory
    run.feed(UpdateRequested(replace(POLICY, tau=0.3)))
    assert run.state.memory is memory
    run.feed(UpdateRequested(replace(POLICY, goal=ByHand())))
    assert run.state.memory is None
    run.feed(UpdateRequested(replace(POLICY, goal=Utilisation())))
    assert run.state.memory == Utilisation().memory()


def test_where_no_copies_shall_stay_any_more_they_are_dropped() -> None:
    state = attached("ab", policy=replace(POLICY, standbys=1))
    state = replace(state, standbys=Standbys(ticket=7))
    state, report = after(state, UpdateRequested(POLICY))
    assert acts(report) == [Cancel(7), DropCopies()]
    assert state.standbys == Standbys()


def test_where_no_spares_shall_be_kept_any_more_they_are_given_back() -> None:
    run = harness(900, policy=replace(POLICY, spares=1))
    run.batches(20)
    spare = run.state.spares[0].id
    run.feed(UpdateRequested(POLICY))
    _, instructions = update_spares(run.state, resting=True)
    assert Release(run.state.next_ticket, (spare,)) in instructions


def test_a_policy_whose_goal_makes_no_sense_now_is_refused_and_nothing_changes() -> None:
    cluster = SimulatedCluster(even_workload(8, 400))
    over = Schedule([(1.0, 2)])
    with simulated(cluster, Policy(max_executors=4)) as loop:
        cluster.advance(30)
        with pytest.raises(ProblemError):
            loop.update(Policy(max_executors=4, goal=over))
        assert loop.policy == Policy(max_executors=4)
        assert loop.of("update") == []


def test_requests_return_what_was_logged_about_them() -> None:
    cluster = SimulatedCluster(even_workload(8, rate_steps({0: 400})))
    policy = Policy(max_executors=4, goal=ByHand(), movement=Movement(moves_per_batch=1))
    with simulated(cluster, policy) as loop:
        cluster.advance(5)
        (begun, *_) = loop.request(ScaleRequested(4, by="eve"))
        assert (begun.kind, begun.reason) == ("scale-out", "scale-out to 4: asked for by eve")
        (queued,) = loop.request(ScaleRequested(3, by="eve"))
        assert "it comes next" in queued.reason
        (refused,) = loop.request(ScaleRequested(9, by="eve"))
        assert refused.kind == "refuse"
        loop.pause()
        loop.resume()
        assert [each.kind for each in loop.of("pause", "resume")] == ["pause", "resume"]
