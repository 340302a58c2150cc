"""Figure 9 of paper 003: the farther the nearest hyperplane, the larger the feasible set."""

from __future__ import annotations

import numpy as np

from elastream.resilience.planner.feasible_set import directions, ray_values
from elastream_lab.studies.figure import Curves, Figure, rises
from elastream_lab.studies.resilience.volume_bounds import sphere_ratio

_MATRICES, _NODES, _STREAMS = 10_000, 10, 3
_BINS = 10
_FEWEST = 30
"""Bins with fewer matrices say nothing about extremes."""


def planes(seed: int) -> Figure:
    """Return the least, mean and largest ratio by plane distance, over random matrices.

    Each stream's load is spread over the nodes by a Dirichlet law whose evenness is drawn again for
    every matrix, so that near and far hyperplanes both occur.
    """
    rng = np.random.default_rng(seed)
    points = directions(_STREAMS, 9, seed=seed)
    ideal = 1.0 / np.sqrt(_STREAMS)
    distances, ratios = np.empty(_MATRICES), np.empty(_MATRICES)
    for i, evenness in enumerate(10 ** rng.uniform(-0.3, 2.0, size=_MATRICES)):
        weights = _NODES * rng.dirichlet(np.full(_NODES, evenness), size=_STREAMS).T
        distances[i] = 1.0 / np.linalg.norm(weights, axis=1).max()
        ratios[i] = ray_values(weights, points).mean()
    bounds = np.array([sphere_ratio(float(r), _STREAMS) for r in distances])
    rows = []
    for low in range(_BINS):
        inside = ratios[(distances / ideal * _BINS).astype(int) == low]
        if len(inside) >= _FEWEST:
            middle = (low + 0.5) / _BINS
            rows.append(
                {
                    "distance_ratio": middle,
                    "matrices": len(inside),
                    "least": float(inside.min()),
                    "mean": float(inside.mean()),
                    "largest": float(inside.max()),
                    "bound": sphere_ratio(middle * ideal, _STREAMS),
                }
            )
    never_below = bool((ratios >= bounds - 1e-9).all())
    slack = 0.01
    both = all(rises([row[name] for row in rows], slack) for name in ("least", "largest"))
    return Figure(
        "003 fig. 9",
        f"{_MATRICES} random weight matrices, {_NODES} nodes, {_STREAMS} streams, seed {seed}",
        rows,
        Curves("distance_ratio", ("least", "mean", "largest", "bound")),
        both and never_below,
        "The paper: both the least and the largest feasible set grow with the plane distance, "
        "above the bound of the sphere; here: "
        f"{'both grow' if both else 'not both grow'} and "
        f"{'no matrix is' if never_below else 'some matrix is'} below the bound.",
    )
