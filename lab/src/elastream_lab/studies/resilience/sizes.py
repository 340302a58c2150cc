"""Figures 14 and 15 of paper 003: feasible sets by the number of operators, and of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from elastream_lab.studies.figure import Curves, Figure, Value, falls, rises
from elastream_lab.studies.resilience.graphs import NODES, random_graph
from elastream_lab.studies.resilience.trials import RIVALS, mean, space_of, trial

_METHODS = ("refined", "rod", *RIVALS)
_OPERATORS = (25, 50, 100, 200)
_INPUTS = (2, 3, 4, 5, 6)
_STREAMS = 5
_TREE = 20


def operators(seed: int, graphs: int) -> Figure:
    """Return figure 14: the ratio to the ideal set and to ROD's, by the number of operators."""
    rows = []
    for count in _OPERATORS:
        ratios = _ratios(_STREAMS, count // _STREAMS, seed, graphs)
        rows += [_row("operators", count, method, ratios) for method in _METHODS]
    best = all(
        _of(rows, "ratio_to_ideal", count, "rod") > _of(rows, "ratio_to_ideal", count, rival)
        for count in _OPERATORS
        for rival in RIVALS
    )
    worst = all(
        min(RIVALS, key=lambda r: _of(rows, "ratio_to_ideal", count, r)) == "connected"
        for count in _OPERATORS
    )
    grows = rises([_of(rows, "ratio_to_ideal", count, "rod") for count in _OPERATORS])
    return Figure(
        "003 fig. 14",
        f"{graphs} random graphs a size, {_STREAMS} inputs, {NODES} nodes; rivals run ten times "
        f"each; seed {seed}",
        rows,
        Curves("operators", ("ratio_to_ideal",), "method"),
        best and worst and grows,
        "The paper: ROD bears most at every size and nears the ideal with more operators, "
        "Connected bears least; here: ROD "
        f"{'bears more than every rival' if best else 'does not always bear most'}, "
        f"{'grows' if grows else 'does not grow steadily'} with the operators, Connected "
        f"{'is always last' if worst else 'is not always last'}.",
    )


def inputs(seed: int, graphs: int) -> Figure:
    """Return figure 15: the ratio to ROD's feasible set, by the number of inputs."""
    rows = []
    for count in _INPUTS:
        ratios = _ratios(count, _TREE, seed, graphs)
        rows += [_row("inputs", count, method, ratios) for method in _METHODS]
    fall = {
        rival: falls([_of(rows, "ratio_to_rod", count, rival) for count in _INPUTS], 0.02)
        for rival in RIVALS
    }
    holds = all(fall.values())
    return Figure(
        "003 fig. 15",
        f"{graphs} random graphs a size, {_TREE} operators an input, {NODES} nodes; seed {seed}",
        rows,
        Curves("inputs", ("ratio_to_rod",), "method"),
        holds,
        "The paper: every further input makes the rivals worse compared with ROD; here: "
        + (
            "all of them fall."
            if holds
            else f"{', '.join(r for r in RIVALS if not fall[r])} do not fall steadily."
        ),
    )


def _ratios(streams: int, tree: int, seed: int, graphs: int) -> Mapping[str, Sequence[float]]:
    """Return, by method, the ratio to the ideal set for each graph."""
    found: dict[str, list[float]] = {method: [] for method in _METHODS}
    for number in range(graphs):
        rng = np.random.default_rng((seed, streams, tree, number))
        space = space_of(random_graph(streams, tree, rng))
        for method, ratio in trial(space, space, _METHODS, seed + number).items():
            found[method].append(ratio)
    return found


def _row(
    axis: str, count: int, method: str, ratios: Mapping[str, Sequence[float]]
) -> dict[str, Value]:
    relative = [own / rod for own, rod in zip(ratios[method], ratios["rod"], strict=True)]
    return {
        axis: count,
        "method": method,
        "ratio_to_ideal": mean(ratios[method]),
        "ratio_to_rod": mean(relative),
    }


def _of(rows: Sequence[Mapping[str, Value]], column: str, count: int, method: str) -> float:
    found = next(r for r in rows if next(iter(r.values())) == count and r["method"] == method)
    return float(found[column] or 0.0)
