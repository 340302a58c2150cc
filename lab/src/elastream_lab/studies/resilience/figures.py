"""The simulated experiments of paper 003 by the number of their figure, all seeded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from elastream_lab.studies.figure import Figure
from elastream_lab.studies.resilience.bounds import bounds, penalties_by_size
from elastream_lab.studies.resilience.clustering import clustering
from elastream_lab.studies.resilience.errors import errors
from elastream_lab.studies.resilience.planes import planes
from elastream_lab.studies.resilience.sizes import inputs, operators

Made = Callable[[int, int], tuple[Figure, ...]]
"""Makes the figures of one number from a seed and how many graphs to average over."""

FIGURES: Mapping[str, Made] = MappingProxyType(
    {
        "9": lambda seed, _: (planes(seed),),
        "14": lambda seed, graphs: (operators(seed, graphs),),
        "15": lambda seed, graphs: (inputs(seed, graphs),),
        "16": bounds,
        "17": clustering,
        "19": lambda seed, graphs: (errors(seed, graphs),),
        "table3": lambda seed, graphs: (penalties_by_size(seed, graphs),),
    }
)
