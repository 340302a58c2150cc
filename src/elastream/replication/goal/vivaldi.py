"""Network coordinates: the delays between all hosts from a few probes of each.

The monitor of paper 004 (section 6.2) takes the delays between nodes from Vivaldi (Dabek, Cox,
Kaashoek, Morris: Vivaldi, a decentralized network coordinate system, SIGCOMM 2004), so that n hosts
need not probe n² pairs. A host is a point of a Euclidean space and a height above it, the
way to its first router; the round trip between two is foretold as::

    |x_i - x_j| + h_i + h_j

Each probe pulls or pushes a host along that line, by the share ``c_c w`` of the misfit, where
``w = e_i / (e_i + e_j)`` and e is how far a host's predictions have been off: one that knows its
place moves little for one that does not (the adaptive timestep of section 3.4). As hosts must not
hang in the air, a height never falls below zero.

Where we depart: Vivaldi runs on every host, a probe at a time, for ever. Here the driver has all
probes and goes through them a fixed number of passes, in an order that the seed fixes, and both
ends of a probe learn from it. O(passes x probes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Final

__all__ = [
    "Coordinate",
    "coordinates",
    "predicted_ms",
    "probe_pairs",
    "round_trips_ms",
    "update",
]

DIMENSIONS: Final = 3
PASSES: Final = 150
_TIMESTEP: Final = 0.25
"""c_c: share of the misfit by which a host moves when both ends are equally sure."""
_ERROR_STEP: Final = 0.25
"""c_e: weight of a new misfit in a host's mean error."""
_LEAST_MS: Final = 1e-3
"""Shorter round trips count as so long, for the relative error; a clock tells no less."""

Pair = tuple[str, str]
"""Two hosts: who probes, and who is probed."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Where one host is."""

    place: tuple[float, ...]
    """Milliseconds in each dimension."""
    height_ms: float = 0.0
    error: float = 1.0
    """How far its predictions have been off, relative to the truth."""


def predicted_ms(one: Coordinate, other: Coordinate) -> float:
    """Return the round trip between two hosts as their coordinates tell it."""
    return math.dist(one.place, other.place) + one.height_ms + other.height_ms


def update(own: Coordinate, other: Coordinate, rtt_ms: float, *, dice: Random) -> Coordinate:
    """Return where a host is after it was found ``rtt_ms`` away from another.

    ``dice`` gives a direction to hosts in the same place.
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


def coordinates(
    probes: Mapping[Pair, float], *, seed: int = 0, passes: int = PASSES
) -> dict[str, Coordinate]:
    """Return the coordinates of every host in ``probes``: round trips in milliseconds."""
    dice = Random(seed)  # noqa: S311 - places, not secrets
    hosts = sorted({host for pair in probes for host in pair})
    scale = fmean(probes.values()) if probes else 0.0
    found = {
        host: Coordinate(
            tuple(dice.uniform(-scale, scale) for _ in range(DIMENSIONS)),
            dice.uniform(0, scale / 10),
        )
        for host in hosts
    }
    samples = sorted(probes.items())
    for _ in range(passes):
        dice.shuffle(samples)
        for (one, other), rtt_ms in samples:
            if one != other:
                before = found[one]
                found[one] = update(before, found[other], rtt_ms, dice=dice)
                found[other] = update(found[other], before, rtt_ms, dice=dice)
    return found


def probe_pairs(hosts: Sequence[str], probes: int, *, seed: int = 0) -> tuple[Pair, ...]:
    """Return who shall probe whom: ``probes`` others a host at most, all hosts joined in a ring."""
    dice = Random(seed)  # noqa: S311 - a sample, not a secret
    ring = sorted(set(hosts))
    dice.shuffle(ring)
    found: list[Pair] = []
    for number, host in enumerate(ring):
        others = [*ring[number + 1 :], *ring[:number]]
        if others and probes:
            further = dice.sample(others[1:], min(probes - 1, len(others) - 1))
            found.extend((host, other) for other in (others[0], *further))
    return tuple(found)


def round_trips_ms(
    hosts: Sequence[str], probes: Mapping[Pair, float], *, seed: int = 0
) -> dict[Pair, float]:
    """Return the round trip between any two hosts: as probed, else as the coordinates tell.

    Both ways are alike; a host is at no distance from itself. Of a host that no probe has reached
    nothing is known: it is taken to be as far from the others as they are from each other.
    """
    places = coordinates(probes, seed=seed)
    usual_ms = fmean(probes.values()) if probes else 0.0
    found: dict[Pair, float] = {}
    for one in hosts:
        for other in hosts:
            both = [probes[pair] for pair in ((one, other), (other, one)) if pair in probes]
            if one == other:
                found[one, other] = 0.0
            elif both:
                found[one, other] = min(both)
            elif one in places and other in places:
                found[one, other] = predicted_ms(places[one], places[other])
            else:
                found[one, other] = usual_ms
    return found
