"""Packets made from a seed: self-similar bursts, a few busy addresses, small and full packets.

Each sub-stream has a mean rate of its own and bursts by itself: its rate is a b-model cascade
(:mod:`~elastream_lab.applications.traffic.bursts`), its packets come at random within a step. That
is what section 7.3.5 of paper 003 stresses: sub-streams are neither equal nor in step. Sources and
destinations follow Zipf's law. A stand-in that needs no data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count as counted
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream_lab.applications.traffic.bursts import bursty_rates
from elastream_lab.applications.traffic.packets import Packets, substream_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


_STEP_S: Final = 0.25
"""About how long a step of the cascade lasts."""
_EPOCH_US: Final = 1_700_000_000_000_000
"""The first step begins at this time, in microseconds since 1970: a whole second."""
_SIZES: Final = (40, 576, 1500)
_SIZE_ODDS: Final = (0.5, 0.2, 0.3)
_DESTINATIONS: Final = 50
_EVENNESS: Final = 8.0
"""Of the mean rates of sub-streams (the parameter of a Dirichlet distribution)."""


@dataclass(frozen=True, slots=True)
class MadeTraffic:
    """What traffic shall be made; checked when made."""

    seed: int = 1
    span_s: float = 60.0
    packets_a_second: float = 120.0
    """Of all sub-streams together, in the mean."""
    substreams: int = 3
    sources: int = 30
    """Addresses of each sub-stream."""
    bias: float = 0.65
    """b of the cascades, from 0.5 (steady) to below 1."""

    def __post_init__(self) -> None:
        count("seed", self.seed)
        count("substreams", self.substreams, least=1)
        count("sources", self.sources, least=1)
        for name in ("span_s", "packets_a_second"):
            positive(name, getattr(self, name))
        if not 0.5 <= non_negative("bias", self.bias) < 1:
            raise ProblemError("bias", f"{self.bias:g} is not from 0.5 to below 1")


def make_packets(traffic: MadeTraffic) -> Packets:
    """Return the packets; equal settings give equal packets."""
    import pyarrow as pa

    rng = np.random.default_rng(traffic.seed)
    shares = rng.dirichlet(np.full(traffic.substreams, _EVENNESS))
    names = _addresses(traffic.sources, traffic.substreams)
    targets = np.array([f"192.0.2.{number}" for number in range(_DESTINATIONS)], dtype=object)
    times = [_times_us(traffic, traffic.packets_a_second * share, rng) for share in shares]
    sources = [
        own[_zipf(rng, len(own), len(arrived))] for own, arrived in zip(names, times, strict=True)
    ]
    time_us = np.concatenate(times)
    order = np.argsort(time_us, kind="stable")
    packets = len(time_us)
    return Packets(
        time_us[order],
        pa.array(np.concatenate(sources)[order], pa.string()),
        pa.array(targets[_zipf(rng, _DESTINATIONS, packets)], pa.string()),
        pa.array(rng.choice(_SIZES, packets, p=_SIZE_ODDS), pa.int64()),
    )


def _times_us(traffic: MadeTraffic, rate: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the times of one sub-stream's packets, in no order."""
    levels = max(1, math.ceil(math.log2(traffic.span_s / _STEP_S)))
    rates = rate * bursty_rates(rng, levels, traffic.bias)
    step_s = traffic.span_s / len(rates)
    packets = rng.poisson(rates * step_s)
    begins = np.repeat(np.arange(len(rates)), packets)
    at_s = (begins + rng.random(len(begins))) * step_s
    return _EPOCH_US + (at_s * 1e6).astype(np.int64)


def _zipf(rng: np.random.Generator, names: int, draws: int) -> NDArray[np.int64]:
    frequency = 1.0 / np.arange(1, names + 1)
    return rng.choice(names, draws, p=frequency / frequency.sum())


def _addresses(sources: int, substreams: int) -> list[Any]:
    """Return this many addresses of each sub-stream, which is what their checksums say."""
    found: list[list[str]] = [[] for _ in range(substreams)]
    for number in counted(1):
        if all(len(own) == sources for own in found):
            break
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        own = found[substream_of(address, substreams)]
        if len(own) < sources:
            own.append(address)
    return [np.array(own, dtype=object) for own in found]
