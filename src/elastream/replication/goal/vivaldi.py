"""Network coordinates: estimate the delays between all hosts from a few probes of each.

The monitor of paper 004 (section 6.2) takes the delays between nodes from Vivaldi (Dabek, Cox,
Kaashoek, Morris, SIGCOMM 2004), so that n hosts need not probe n² pairs. A host is a point in a
Euclidean space with a height above it, the access link to its first router. The predicted round
trip is ``|x_i - x_j| + h_i + h_j``. Each probe pulls or pushes a host along that line by the share
``c_c w`` of the error, where ``w = e_i / (e_i + e_j)`` and e is the running error of a host's
predictions (the adaptive timestep of section 3.4). A height never falls below zero.

Departure: Vivaldi runs on every host, one probe at a time, for ever. Here the driver has all
probes, goes over them for a fixed number of passes in an order fixed by the seed, and updates both
ends of a probe. O(passes x probes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Final

_DIMENSIONS: Final = 3
_PASSES: Final = 150
_TIMESTEP: Final = 0.25
"""c_c: share of the error by which a host moves when both ends are equally sure."""
_ERROR_STEP: Final = 0.25
"""c_e: weight of a new error in a host's mean error."""
_LEAST_MS: Final = 1e-3
"""Shorter round trips count as this long in the relative error; clocks do not resolve less."""

Pair = tuple[str, str]
"""Two hosts: the one that probes, and the one that is probed."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Coordinates of one host."""

    place: tuple[float, ...]
    """Milliseconds in each dimension."""
    height_ms: float = 0.0
    error: float = 1.0
    """Running mean of the relative error of its predictions."""


def predicted_ms(one: Coordinate, other: Coordinate) -> float:
    """Return the round trip between two hosts predicted by their coordinates."""
    return math.dist(one.place, other.place) + one.height_ms + other.height_ms


def update(own: Coordinate, other: Coordinate, rtt_ms: float, *, dice: Random) -> Coordinate:
    """Return the coordinates of a host after it measured ``rtt_ms`` to another.

    ``dice`` picks a direction for hosts at the same point.
    """
    rtt_ms = max(rtt_ms, _LEAST_MS)
    apart = predicted_ms(own, other)
    sure = own.error / (own.error + other.error) if own.error + other.error > 0 else 0.5
    wrong = abs(apart - rtt_ms) / rtt_ms
    error = wrong * _ERROR_STEP * sure + own.error * (1 - _ERROR_STEP * sure)
    push = _TIMESTEP * sure * (rtt_ms - apart)
    away = [a - b for a, b in zip(own.place, other.place, strict=True)]
    length = math.hypot(*away)
    if length == 0:
        away = [dice.gauss(0.0, 1.0) for _ in own.place]
        length = math.hypot(*away)
    share = (math.dist(own.place, other.place) / apart) if apart > 0 else 1.0
    place = tuple(
        at + push * share * step / length for at, step in zip(own.place, away, strict=True)
    )
    height_ms = max(0.0, own.height_ms + push * (1 - share))
    return Coordinate(place, height_ms, error)


def coordinates(probes: Mapping[Pair, float], *, seed: int = 0) -> dict[str, Coordinate]:
    """Return the coordinates of every host in ``probes``: round trips in milliseconds."""
    dice = Random(seed)  # noqa: S311 - places, not secrets
    hosts = sorted({host for pair in probes for host in pair})
    scale = fmean(probes.values()) if probes else 0.0
    placed = {
        host: Coordinate(
            tuple(dice.uniform(-scale, scale) for _ in range(_DIMENSIONS)),
            dice.uniform(0, scale / 10),
        )
        for host in hosts
    }
    samples = sorted(probes.items())
    for _ in range(_PASSES):
        dice.shuffle(samples)
        for (one, other), rtt_ms in samples:
            if one != other:
                previous = placed[one]
                placed[one] = update(previous, placed[other], rtt_ms, dice=dice)
                placed[other] = update(placed[other], previous, rtt_ms, dice=dice)
    return placed


def probe_pairs(hosts: Sequence[str], probes: int, *, seed: int = 0) -> tuple[Pair, ...]:
    """Return which hosts probe which: at most ``probes`` others each; a ring joins all hosts."""
    dice = Random(seed)  # noqa: S311 - a sample, not a secret
    ring = sorted(set(hosts))
    dice.shuffle(ring)
    pairs: list[Pair] = []
    for number, host in enumerate(ring):
        others = [*ring[number + 1 :], *ring[:number]]
        if others and probes:
            further = dice.sample(others[1:], min(probes - 1, len(others) - 1))
            pairs.extend((host, other) for other in (others[0], *further))
    return tuple(pairs)


def round_trips_ms(
    hosts: Sequence[str], probes: Mapping[Pair, float], *, seed: int = 0
) -> dict[Pair, float]:
    """Return the round trip between any two hosts: as measured, otherwise as predicted.

    Round trips are symmetric; a host has no distance to itself. Nothing is known about a host that
    no probe has reached: it is assumed to be as far from the others as they are from each other.
    """
    places = coordinates(probes, seed=seed)
    usual_ms = fmean(probes.values()) if probes else 0.0
    trips: dict[Pair, float] = {}
    for one in hosts:
        for other in hosts:
            both = [probes[pair] for pair in ((one, other), (other, one)) if pair in probes]
            if one == other:
                trips[one, other] = 0.0
            elif both:
                trips[one, other] = min(both)
            elif one in places and other in places:
                trips[one, other] = predicted_ms(places[one], places[other])
            else:
                trips[one, other] = usual_ms
    return trips
