"""Every method of resilient placement by its name: the product's, then the rivals.

A rival needs rates to balance at, which a problem does not have. As in section 7.3.1 of paper 003
they are drawn at random from the ideal set, by the seed; correlation and max-rate draw a series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from elastream.resilience.planner.clustering import rod_with_clustering
from elastream.resilience.planner.normalised import Floats, Ints, Space
from elastream.resilience.planner.planner import refined_placement
from elastream_lab.rivals import placements

Method = Callable[[Space, int], Ints]
"""A placement of the operators of a space; chance is a seed, which matters to rivals alone."""

_SERIES = 100
"""Points in time of a drawn series."""


def drawn_rates(space: Space, seed: int, count: int) -> Floats:
    """Return rows of rates drawn uniformly from the ideal set above the lower bound."""
    rng = np.random.default_rng(seed)
    parts = rng.dirichlet(np.ones(len(space.bound) + 1), size=count)
    drawn: Floats = space.bound + space.room * parts[:, :-1]
    return drawn


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "refined": lambda space, _seed: refined_placement(space),
        "rod": lambda space, _seed: rod_with_clustering(space),
        "llf": lambda s, seed: placements.largest_load_first(s, drawn_rates(s, seed, 1)[0]),
        "connected": lambda s, seed: placements.connected(s, drawn_rates(s, seed, 1)[0]),
        "correlation": lambda s, seed: placements.correlation(s, drawn_rates(s, seed, _SERIES)),
        "random": placements.random_even,
        "max-rate": lambda s, seed: placements.max_rate(s, drawn_rates(s, seed, _SERIES)),
    }
)
