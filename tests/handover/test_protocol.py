from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handover.notes import owner_of
from tests.handover.scenarios import scenarios

from elastream.handover.ledger import Side
from elastream.handover.model import QueryShape, Window
from elastream.handover.target import Left, Owning, Prepared
from elastream.handover.testing.handover import SimulatedOrigin
from elastream.handover.testing.simulated_handover import Fault
from elastream.testing import HandoverScenario, Output, Row, SimulatedHandover, uninterrupted

MESSAGES = 9
"""Join, Accept, Seen, Offer, Ready, Commit, Taken, and some repeated."""
EFFECTS = 12
"""Messages, lines and records of a side in a handover, and some more."""

faults: st.SearchStrategy[Fault] = st.sampled_from(get_args(Fault))


def dense(kind: str = "time", length: int = 4, slide: int = 2, rows: int = 80) -> HandoverScenario:
    shape = QueryShape("q", Window.of(kind, length, slide), 1)
    return HandoverScenario(shape, [(0, Row(at, 1)) for at in range(rows)], begin=10)


def check(world: SimulatedHandover) -> None:
    """Each window has one owner, its owner put it out, and the logs say who that is."""
    scenario, whole = world.scenario, uninterrupted(world.scenario)
    boundary = world.boundary
    origin, target = world.sides["origin"], world.sides["target"]
    kept = sorted(world.origin.put_out), sorted(world.target.put_out)
    if boundary is None:
        assert kept == (sorted(whole), [])
    else:
        own = [output for output in whole if output.coordinate < boundary.activation]
        rest = [output for output in whole if output.coordinate >= boundary.activation]
        assert kept[0] == sorted(own)
        if target.driver is not None and isinstance(target.driver.machine.phase, Owning):
            assert kept[1] == sorted(rest)
            if scenario.shape.operation != "join":
                assert world.origin.put_out + world.target.put_out == whole
        elif target.driver is None:  # dead for good, maybe after it had begun
            assert world.target.put_out == rest[: len(kept[1])]
        else:
            assert kept[1] == []
    check_logs(world, whole)
    if origin.driver is not None and target.driver is not None and scenario.cut_after is None:
        assert not isinstance(target.driver.machine.phase, Prepared), "no one answered"


def check_logs(world: SimulatedHandover, whole: list[Output]) -> None:
    boundary = world.boundary
    for output in whole:
        split = boundary is not None and output.coordinate >= boundary.activation
        truth: Side = "target" if split else "origin"
        for side in ("origin", "target"):
            node = world.sides[side]
            if node.notes and node.driver is not None:
                said = owner_of(output.coordinate, node.notes[-1])
                assert said == truth or (side == "target" and said is None)


@given(scenarios())
@settings(max_examples=min(800, settings().max_examples))
def test_origin_and_target_together_put_out_what_one_run_does(scenario: HandoverScenario) -> None:
    check(SimulatedHandover(scenario).run())


@given(scenario=scenarios(), lost=st.dictionaries(st.integers(0, MESSAGES), faults, max_size=6))
@settings(max_examples=min(600, settings().max_examples))
def test_nothing_is_lost_or_doubled_when_messages_are_lost_repeated_or_late(
    scenario: HandoverScenario, lost: dict[int, Fault]
) -> None:
    check(SimulatedHandover(replace(scenario, faults=lost)).run())


@given(
    scenario=scenarios(),
    side=st.sampled_from(["origin", "target"]),
    effect=st.integers(0, EFFECTS),
    comes_back=st.booleans(),
    lost=st.dictionaries(st.integers(0, MESSAGES), faults, max_size=6),
)
@settings(max_examples=min(600, settings().max_examples))
def test_nothing_is_lost_or_doubled_when_a_side_dies_amid_its_work(
    scenario: HandoverScenario, side: Side, effect: int, comes_back: bool, lost: dict[int, Fault]
) -> None:
    dying = replace(scenario, crash=(side, effect), comes_back=comes_back, faults=lost)
    world = SimulatedHandover(dying)
    if side == "origin" and not comes_back:
        run_without_origin(world)
        return
    check(world.run())


def run_without_origin(world: SimulatedHandover) -> None:
    """No one goes beyond what the dead origin's record allows."""
    for _ in range(400):
        world.turn()
    boundary = world.boundary
    whole = uninterrupted(world.scenario)
    assert all(output in whole for output in world.origin.put_out)
    if boundary is None:
        assert world.target.put_out == []
    else:
        assert all(o.coordinate < boundary.activation for o in world.origin.put_out)
        assert all(o.coordinate >= boundary.activation for o in world.target.put_out)
        assert all(output in whole for output in world.target.put_out)
    phase = (
        None if world.sides["target"].driver is None else world.sides["target"].driver.machine.phase
    )
    if isinstance(phase, Prepared):
        assert phase.in_doubt
        assert world.sides["target"].notes[-1].owner == "undecided"


@pytest.mark.slow
@given(
    scenario=scenarios(),
    side=st.sampled_from(["origin", "target"]),
    effect=st.integers(0, 4 * EFFECTS),
    lost=st.dictionaries(st.integers(0, 3 * MESSAGES), faults),
)
@settings(max_examples=20_000)
def test_nothing_is_lost_or_doubled_in_very_many_worlds(
    scenario: HandoverScenario, side: Side, effect: int, lost: dict[int, Fault]
) -> None:
    check(SimulatedHandover(replace(scenario, crash=(side, effect), faults=lost)).run())


def test_most_generated_handovers_are_committed() -> None:
    """Else the properties above would say little."""
    counts = Counter(committed_kind(seed) for seed in range(60))
    assert counts["time"] > 25
    assert counts["rows"] > 15


def committed_kind(seed: int) -> str | None:
    dice = random.Random(seed)
    kind = "time" if seed % 2 else "rows"
    shape = QueryShape("q", Window.of(kind, dice.randint(1, 12), dice.randint(1, 12)), 1)
    stream = [(0, Row(at // 2, 0)) for at in range(60)]
    world = SimulatedHandover(
        HandoverScenario(shape, stream, begin=dice.randint(0, 20), seed=seed)
    ).run()
    check(world)
    return None if world.boundary is None else kind


@pytest.mark.parametrize("kind", ["time", "rows"])
def test_a_handover_without_faults_is_committed_and_finished(kind: str) -> None:
    world = SimulatedHandover(dense(kind)).run()
    check(world)
    assert world.boundary is not None
    assert {note.kind for note in world.sides["origin"].notes} == {
        "accept", "offer", "commit", "confirm", "finish",
    }  # fmt: skip
    assert [note.kind for note in world.sides["target"].notes] == ["ready", "own"]


@pytest.mark.parametrize("kind", ["time", "rows"])
@pytest.mark.parametrize("fault", ["lose", "repeat", "delay"])
@pytest.mark.parametrize("number", range(MESSAGES))
def test_a_fault_at_any_one_message_is_survived(kind: str, fault: Fault, number: int) -> None:
    world = SimulatedHandover(replace(dense(kind), faults={number: fault})).run()
    check(world)
    assert world.boundary is not None or fault == "delay"


@pytest.mark.parametrize("number", range(MESSAGES))
def test_a_network_that_breaks_for_good_leaves_one_owner(number: int) -> None:
    world = SimulatedHandover(replace(dense(), cut_after=number)).run()
    check(world)
    target = world.sides["target"].driver
    assert target is not None
    if isinstance(target.machine.phase, Prepared):
        assert world.sides["target"].notes[-1].kind == "doubt"


@pytest.mark.parametrize("kind", ["time", "rows"])
@pytest.mark.parametrize("side", ["origin", "target"])
@pytest.mark.parametrize("comes_back", [True, False])
@pytest.mark.parametrize("effect", range(EFFECTS))
def test_a_death_at_any_one_effect_leaves_one_owner(
    kind: str, side: Side, comes_back: bool, effect: int
) -> None:
    scenario = replace(dense(kind), crash=(side, effect), comes_back=comes_back)
    if side == "origin" and not comes_back:
        run_without_origin(SimulatedHandover(scenario))
    else:
        check(SimulatedHandover(scenario).run())


def test_a_target_that_never_connects_changes_nothing() -> None:
    scenario = replace(dense(), begin=10**9)
    world = SimulatedHandover(scenario)
    world.sides["target"].lives = 1
    world.run()
    assert world.origin.put_out == uninterrupted(scenario)
    assert world.sides["origin"].notes == []


def test_a_target_that_dies_after_its_first_row_leaves_all_to_the_origin() -> None:
    world = SimulatedHandover(replace(dense(), crash=("target", 1), comes_back=False)).run()
    check(world)
    note = world.sides["origin"].notes[-1]
    assert (note.kind, note.owner) == ("abort", "origin")
    assert "the target did not report its first rows within 2 s" in note.reason


@pytest.mark.parametrize("side", ["origin", "target"])
def test_a_full_disk_ends_in_an_abort(side: Side) -> None:
    world = SimulatedHandover(replace(dense(), full_disk=side)).run()
    check(world)
    assert world.boundary is None
    assert "could not be written: No space left on device" in world.sides[side].notes[-1].reason


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"name": "other"}, "the query is 'q' here and 'other' there"),
        ({"operation": "join"}, "the operation is 'aggregate' here and 'join' there"),
        ({"inputs": 2}, "the number of inputs is 1 here and 2 there"),
        ({"lateness": 5}, "the lateness is 0 here and 5 there"),
        ({"window": Window.of("rows", 4, 2)}, "the kind of window is 'time' here and 'rows' there"),
        ({"window": Window.of("time", 6, 2)}, "the window length is 4 here and 6 there"),
        ({"window": Window.of("time", 4, 1)}, "the window slide is 2 here and 1 there"),
    ],
)
def test_another_query_is_refused_with_what_differs(change: dict[str, object], line: str) -> None:
    scenario = dense()
    other = replace(scenario.shape, **change)  # type: ignore[arg-type]
    world = SimulatedHandover(replace(scenario, target_shape=other)).run()
    check(world)
    target = world.sides["target"].driver
    assert target is not None
    assert target.machine.phase == Left(line)
    assert line in world.sides["origin"].notes[-1].reason


def test_a_stream_that_does_not_reach_the_targets_first_row_keeps_its_origin() -> None:
    """Row windows wait for a row that the target sees; clocks ahead never bring one."""
    scenario = dense("rows", rows=200)
    world = SimulatedHandover(scenario)
    seen = world.target.first_seen
    ahead = 10**9
    world.target.first_seen = lambda: None if (at := seen()) is None else (at[0] + ahead,)  # type: ignore[method-assign]
    world.run()
    check(world)
    kinds = [note.kind for note in world.sides["origin"].notes]
    assert kinds == ["accept", "abort"]
    assert "within 4 s; do the clocks disagree?" in world.sides["origin"].notes[-1].reason


def test_a_target_whose_clock_is_far_ahead_is_refused() -> None:
    scenario = dense(rows=200)
    world = SimulatedHandover(scenario)
    world.stays[0].query = SimulatedOrigin(scenario.shape, furthest_ahead=1000)
    seen = world.target.first_seen
    world.target.first_seen = lambda: None if (at := seen()) is None else (at[0] + 10**9,)  # type: ignore[method-assign]
    world.run()
    check(world)
    assert "more than 1000; do the clocks disagree?" in world.sides["origin"].notes[-1].reason


def test_an_origin_that_lags_longer_than_the_patience_is_waited_for() -> None:
    world = SimulatedHandover(replace(dense("rows", rows=200), lag=30)).run()
    check(world)
    assert world.boundary is not None
