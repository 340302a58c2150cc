"""Figure 16 and table 3 of paper 003: what it costs not to know the lower bound, or a wrong one.

A penalty is ``(V(B) - V(Z)) / V(B)``: V(Z) is the volume above the true lower bound B that is
borne by the plan made for Z, the origin or another point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from elastream.resilience.planner.normalised import Floats, Ints, Space
from elastream.resilience.planner.rod import rod
from elastream_lab.studies.figure import Curves, Figure, Value, falls, rises
from elastream_lab.studies.resilience.graphs import NODES, random_graph
from elastream_lab.studies.resilience.trials import Ruler, mean, space_of

_STREAMS = 5
_OPERATORS = 50
_SIZES = (25, 50, 100, 200)
_POINTS = 60
"""Lower bounds drawn for each graph."""
_BINS = 5
_NOISE = 0.05
"""A step of the means as small as this, against the trend, is put down to few points."""


@dataclass(frozen=True, slots=True)
class _Penalty:
    room: float
    """Distance from B to the ideal hyperplane over that from the origin."""
    apart: float
    """Distance between B and Z in the normalised space."""
    of_origin: float
    of_other: float


def bounds(seed: int, graphs: int) -> tuple[Figure, Figure]:
    """Return figures 16a and 16b."""
    drawn, lost = _penalties(_OPERATORS, seed, graphs)
    data = (
        f"{len(drawn)} lower bounds on {graphs} random graphs of {_OPERATORS} operators, "
        f"{_STREAMS} inputs, {NODES} nodes; {lost} that ROD bears nothing above left out; "
        f"seed {seed}"
    )
    near = _binned(drawn, "room", lambda p: p.room, lambda p: p.of_origin)
    far = _binned(drawn, "apart", lambda p: p.apart, lambda p: p.of_other)
    a, b = _trend(near, falls), _trend(far, rises)
    return (
        Figure(
            "003 fig. 16a",
            data,
            near,
            Curves("room", ("penalty",)),
            a,
            "The paper: the penalty of not knowing the lower bound is large near the ideal "
            "hyperplane and drops towards the origin; here: "
            f"it {'drops' if a else 'does not drop'}.",
        ),
        Figure(
            "003 fig. 16b",
            data,
            far,
            Curves("apart", ("penalty",)),
            b,
            "The paper: the penalty of a wrong lower bound grows with its distance from the true "
            f"one; here: it {'grows' if b else 'does not grow steadily'}.",
        ),
    )


def penalties_by_size(seed: int, graphs: int) -> Figure:
    """Return table 3: mean penalties by the number of operators."""
    rows: list[dict[str, Value]] = []
    origins, others = [], []
    for size in _SIZES:
        drawn, lost = _penalties(size, seed, graphs)
        origins.append(mean([p.of_origin for p in drawn]))
        others.append(mean([p.of_other for p in drawn]))
        row: dict[str, Value] = {"operators": size, "origin": origins[-1], "other": others[-1]}
        rows.append(row | {"points": len(drawn), "left_out": lost})
    holds = falls(origins, _NOISE) and falls(others, _NOISE)
    return Figure(
        "003 table 3",
        f"{_POINTS} lower bounds on each of {graphs} random graphs a size, {_STREAMS} inputs, "
        f"{NODES} nodes; seed {seed}",
        rows,
        Curves("operators", ("origin", "other")),
        holds,
        "The paper: the mean penalty falls from 0.90 to 0.35 (origin) as operators grow from 25 to "
        f"200; here: from {origins[0]:.2f} to {origins[-1]:.2f}, other points from "
        f"{others[0]:.2f} to {others[-1]:.2f} (steps of {_NOISE} count as noise).",
    )


def _penalties(operators: int, seed: int, graphs: int) -> tuple[list[_Penalty], int]:
    """Return the penalties, and how many lower bounds had to be left out."""
    ruler = Ruler.of(_STREAMS)
    found, lost = [], 0
    for number in range(graphs):
        rng = np.random.default_rng((seed, operators, number))
        space = space_of(random_graph(_STREAMS, operators // _STREAMS, rng))
        at_origin = rod(space)
        points = rng.dirichlet(np.ones(_STREAMS + 1), size=(_POINTS, 2))[:, :, :-1]
        for true, wrong in points:
            penalty = _penalty(space, true, wrong, at_origin, ruler)
            if penalty is None:
                lost += 1
            else:
                found.append(penalty)
    return found, lost


def _penalty(
    space: Space, true: Floats, wrong: Floats, at_origin: Ints, ruler: Ruler
) -> _Penalty | None:
    above = replace(space, bound=true)
    best = ruler.ratio(above, rod(above))
    if best == 0:
        return None
    other = ruler.ratio(above, rod(replace(space, bound=wrong)))
    return _Penalty(
        above.room,
        float(np.linalg.norm(true - wrong)),
        (best - ruler.ratio(above, at_origin)) / best,
        (best - other) / best,
    )


def _binned(
    drawn: Sequence[_Penalty],
    axis: str,
    at: Callable[[_Penalty], float],
    height: Callable[[_Penalty], float],
) -> list[dict[str, Value]]:
    """Return mean penalties of as many points in each bin."""
    ordered = sorted(drawn, key=at)
    rows: list[dict[str, Value]] = []
    for part in np.array_split(np.arange(len(ordered)), _BINS):
        inside = [ordered[int(i)] for i in part]
        if inside:
            penalty = mean([height(p) for p in inside])
            rows.append({axis: mean([at(p) for p in inside]), "penalty": penalty})
    return rows


def _trend(
    rows: Sequence[Mapping[str, Value]], test: Callable[[Sequence[float], float], bool]
) -> bool:
    return test([float(row["penalty"] or 0.0) for row in rows], _NOISE)
