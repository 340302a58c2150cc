from __future__ import annotations

import math
from random import Random
from statistics import median

from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.replication.goal.vivaldi import (
    Coordinate,
    coordinates,
    predicted_ms,
    probe_pairs,
    round_trips_ms,
    update,
)

seeds = st.integers(0, 10_000)


def map_of(hosts: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Hosts on a plane of 100 by 100 ms, each with a way of up to 5 ms to its first router."""
    dice = Random(seed)
    return {
        f"h{number}": (dice.uniform(0, 100), dice.uniform(0, 100), dice.uniform(0, 5))
        for number in range(hosts)
    }


def truth_ms(places: dict[str, tuple[float, float, float]], one: str, other: str) -> float:
    (x, y, up), (u, v, down) = places[one], places[other]
    return math.hypot(x - u, y - v) + up + down


@given(seeds)
@settings(max_examples=4)
def test_a_few_probes_a_host_tell_the_delays_between_all(seed: int) -> None:
    places = map_of(30, seed)
    pairs = probe_pairs(sorted(places), 6, seed=seed)
    probes = {pair: truth_ms(places, *pair) for pair in pairs}
    assert len(probes) <= 6 * 30 < 30 * 29 / 2
    report = round_trips_ms(sorted(places), probes, seed=seed)
    unprobed = [
        pair for pair in report if pair[0] != pair[1] and not {pair, pair[::-1]} & set(probes)
    ]
    errors = [abs(report[pair] / truth_ms(places, *pair) - 1) for pair in unprobed]
    assert median(errors) < 0.1


@given(seeds)
@settings(max_examples=3)
def test_noise_of_a_tenth_makes_the_delays_no_worse_than_a_fifth(seed: int) -> None:
    places, dice = map_of(30, seed), Random(seed)
    pairs = probe_pairs(sorted(places), 6, seed=seed)
    probes = {pair: truth_ms(places, *pair) * dice.uniform(1, 1.1) for pair in pairs}
    found = coordinates(probes, seed=seed)
    errors = [
        abs(predicted_ms(found[one], found[other]) / truth_ms(places, one, other) - 1)
        for one in places
        for other in places
        if one < other
    ]
    assert median(errors) < 0.2


def test_the_same_probes_and_seed_give_the_same_coordinates() -> None:
    probes = {("a", "b"): 10.0, ("b", "c"): 20.0, ("c", "a"): 25.0}
    assert coordinates(probes, seed=3) == coordinates(dict(reversed(probes.items())), seed=3)


@given(
    st.tuples(*[st.floats(-50, 50)] * 3),
    st.tuples(*[st.floats(-50, 50)] * 3),
    st.floats(0, 200),
    st.floats(0.01, 2),
    st.floats(0.01, 2),
)
def test_a_probe_brings_a_prediction_nearer_and_no_host_under_the_ground(
    here: tuple[float, ...],
    there: tuple[float, ...],
    rtt_ms: float,
    error: float,
    other_error: float,
) -> None:
    own, other = Coordinate(here, 1.0, error), Coordinate(there, 2.0, other_error)
    after = update(own, other, rtt_ms, dice=Random(0))
    assert after.height_ms >= 0
    before_off = abs(predicted_ms(own, other) - rtt_ms)
    assert abs(predicted_ms(after, other) - rtt_ms) <= before_off + 1e-6


def test_who_is_surer_moves_less() -> None:
    sure, unsure = Coordinate((0.0, 0.0, 0.0), error=0.1), Coordinate((10.0, 0.0, 0.0), error=0.9)
    moved = math.dist(update(sure, unsure, 30, dice=Random(0)).place, sure.place)
    assert moved < math.dist(update(unsure, sure, 30, dice=Random(0)).place, unsure.place)


@given(st.integers(0, 40), st.integers(0, 6), seeds)
def test_every_host_probes_few_others_and_all_are_joined(
    hosts: int, probes: int, seed: int
) -> None:
    names = [f"h{number}" for number in range(hosts)]
    pairs = probe_pairs(names, probes, seed=seed)
    assert len(set(pairs)) == len(pairs)
    assert all(one != other for one, other in pairs)
    for name in names:
        assert sum(one == name for one, _ in pairs) == min(probes, max(0, hosts - 1))
    if probes and hosts:
        reached, edge = {names[0]}, {names[0]}
        while edge:
            edge = {other for one, other in pairs if one in edge} - reached
            reached |= edge
        assert reached == set(names)


def test_what_was_probed_is_believed_and_a_host_is_at_its_own_place() -> None:
    reports = round_trips_ms(["a", "b", "c"], {("a", "b"): 12.0, ("b", "a"): 11.0}, seed=0)
    assert reports["a", "b"] == reports["b", "a"] == 11.0
    assert reports["a", "a"] == 0
    assert reports["a", "c"] == 11.5, "nothing is known of c: as far as others are"
