"""A query that is handed on and on: every application that took it over is the next origin."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handover.scenarios import scenarios

from elastream.handover.driver import TargetDriver
from elastream.handover.model import QueryShape, Window
from elastream.handover.target import Owning, Prepared
from elastream.handover.testing.simulated_handover import Fault
from elastream.testing import HandoverScenario, Row, SimulatedHandover, uninterrupted

HOPS = 3
"""A -> B -> A -> C: the second stay at A is one of its own."""
MESSAGES = 24
"""Of three handovers without faults."""
EFFECTS = 24
"""Messages, lines and records of an application that takes the query over and hands it on."""


def chain(kind: str = "time") -> HandoverScenario:
    shape = QueryShape("q", Window.of(kind, 6, 2), 1)
    stream = [(0, Row(at, 1)) for at in range(150)]
    return HandoverScenario(shape, stream, begin=10, onward=(45, 80), retries=4)


def check(world: SimulatedHandover) -> None:
    """Each application put out what lies between its two boundaries, and nothing else."""
    whole, boundaries = uninterrupted(world.scenario), world.boundaries
    activations = [each.activation for each in boundaries]
    assert activations == sorted(activations)
    begin: float = float("-inf")
    for number, side in enumerate(world.stays):
        end = boundaries[number].activation if number < len(boundaries) else float("inf")
        owned = [output for output in whole if begin <= output.coordinate < end]
        if number > len(boundaries):
            owned = []
        assert sorted(side.query.put_out) == sorted(owned), f"stay {number}"
        begin = end
    assert (world.lost, world.doubled) == ([], [])
    for side in world.stays:
        assert not isinstance(side.driver, TargetDriver) or not isinstance(
            side.driver.machine.phase, Prepared
        ), "no one answered"


@pytest.mark.parametrize("kind", ["time", "rows"])
def test_a_query_goes_there_and_back_and_on(kind: str) -> None:
    world = SimulatedHandover(chain(kind)).run()
    check(world)
    assert len(world.boundaries) == HOPS
    assert all(side.query.put_out for side in world.stays)
    assert [note.kind for note in world.stays[1].notes if note.side == "target"] == ["ready", "own"]
    assert {note.kind for note in world.stays[1].notes if note.side == "origin"} == {
        "accept", "offer", "commit", "confirm", "finish",
    }  # fmt: skip


@pytest.mark.parametrize("fault", get_args(Fault))
@pytest.mark.parametrize("number", range(MESSAGES))
def test_a_fault_at_any_message_of_a_chain_is_survived(fault: Fault, number: int) -> None:
    scenario = chain("time" if number % 2 else "rows")
    world = SimulatedHandover(replace(scenario, faults={number: fault})).run()
    check(world)
    assert len(world.boundaries) == HOPS


@pytest.mark.parametrize("number", range(HOPS + 1))
@pytest.mark.parametrize("effect", range(EFFECTS))
def test_a_death_at_any_effect_of_a_chain_is_survived(number: int, effect: int) -> None:
    scenario = chain("time" if (number + effect) % 2 else "rows")
    world = SimulatedHandover(replace(scenario, crash=(number, effect))).run()
    check(world)
    assert len(world.boundaries) == HOPS


@pytest.mark.parametrize("kind", ["time", "rows"])
def test_an_application_that_hands_on_at_once_may_put_out_nothing_itself(kind: str) -> None:
    scenario = replace(chain(kind), shape=QueryShape("q", Window.of(kind, 40, 40), 1))
    world = SimulatedHandover(replace(scenario, begin=10, onward=(14, 18))).run()
    check(world)
    assert len(world.boundaries) == HOPS
    assert not all(side.query.put_out for side in world.stays)


@pytest.mark.parametrize("kind", ["time", "rows"])
def test_an_application_gives_nothing_that_lies_before_its_own_beginning(kind: str) -> None:
    """A target that reads from far back would otherwise be given what is another's."""
    world = SimulatedHandover(replace(chain(kind), onward=(12, 14), reach_back=60)).run()
    check(world)
    assert len(world.boundaries) == HOPS


def test_an_application_that_owns_nothing_yet_is_asked_until_it_does() -> None:
    scenario = replace(chain(), begin=40, onward=(10, 10), retries=20)
    world = SimulatedHandover(scenario).run()
    check(world)
    assert len(world.boundaries) == HOPS


@given(
    scenario=scenarios(),
    onward=st.lists(st.integers(0, 60), min_size=1, max_size=3),
    back=st.sampled_from([0, 0, 5, 60]),
    lost=st.dictionaries(st.integers(0, MESSAGES), st.sampled_from(get_args(Fault)), max_size=8),
    crash=st.none() | st.tuples(st.integers(0, 3), st.integers(0, EFFECTS)),
)
@settings(max_examples=min(400, settings().max_examples))
def test_nothing_is_lost_or_doubled_in_generated_chains(
    scenario: HandoverScenario,
    onward: list[int],
    back: int,
    lost: dict[int, Fault],
    crash: tuple[int, int] | None,
) -> None:
    world = SimulatedHandover(
        replace(
            scenario,
            onward=tuple(onward), reach_back=back, faults=lost, crash=crash, retries=2,
        )
    )  # fmt: skip
    check(world.run())


def test_most_generated_chains_are_handed_on() -> None:
    """Else the properties above would say little."""
    reached = [
        len(SimulatedHandover(replace(chain(kind), seed=seed)).run().boundaries)
        for kind in ("time", "rows")
        for seed in range(15)
    ]
    assert reached.count(HOPS) >= 28


def test_a_stay_that_is_over_is_not_asked_any_more() -> None:
    world = SimulatedHandover(chain()).run()
    assert [side.has_left for side in world.stays] == [True, True, True, False]
    last = world.stays[-1].driver
    assert last is not None
    assert isinstance(last.machine.phase, Owning)
