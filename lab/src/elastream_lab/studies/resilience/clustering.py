"""Figure 17 of paper 003: ROD with operator clustering where streams between nodes cost CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elastream.resilience.planner.clustering import rod_with_clustering
from elastream.resilience.planner.rod import rod
from elastream_lab.rivals.methods import drawn_rates
from elastream_lab.rivals.placements import connected
from elastream_lab.studies.figure import Curves, Figure, Value, rises
from elastream_lab.studies.resilience.graphs import NODES, random_graph
from elastream_lab.studies.resilience.trials import Ruler, mean, space_of

_STREAMS = 5
_COSTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_TREES = (10, 20, 40)
_RUNS = 10


def clustering(seed: int, graphs: int) -> tuple[Figure, Figure]:
    """Return figures 17a (next to plain ROD) and 17b (next to Connected load balancing)."""
    rows = [_row(cost, tree, seed, graphs) for tree in _TREES for cost in _COSTS]
    gains = [_column(rows, "beside_rod", tree) for tree in _TREES]
    over = [_column(rows, "ratio_to_connected", tree) for tree in _TREES]
    never_worse = all(min(gain) >= 1 - 1e-9 for gain in gains)
    grows = all(gain[-1] > gain[0] for gain in gains)
    beats = all(min(values) > 1 for values in over)
    with_size = rises([mean(values) for values in over])
    data = (
        f"{graphs} random graphs a point, {_STREAMS} inputs, {NODES} nodes, every operator 1 a "
        f"tuple, a crossing tuple `cost` at each end; seed {seed}"
    )
    return (
        Figure(
            "003 fig. 17a",
            data,
            rows,
            Curves("cost", ("beside_rod",), "tree"),
            never_worse and grows,
            "The paper: clustering matters more as transfers get dearer; here: clustered ROD is "
            f"{'never' if never_worse else 'sometimes'} worse than plain ROD on average, and its "
            f"lead {'grows' if grows else 'does not grow'} with the cost.",
        ),
        Figure(
            "003 fig. 17b",
            data,
            rows,
            Curves("cost", ("ratio_to_connected",), "tree"),
            beats and with_size,
            "The paper: clustered ROD beats Connected at any transfer cost, the more so with more "
            f"operators an input; here: it {'always beats it' if beats else 'does not always'}, "
            f"and the lead {'grows' if with_size else 'does not grow'} with the operators.",
        ),
    )


def _row(cost: float, tree: int, seed: int, graphs: int) -> dict[str, Value]:
    ruler = Ruler.of(_STREAMS)
    plain, clustered, linked = [], [], []
    for number in range(graphs):
        rng = np.random.default_rng((seed, tree, number))
        space = space_of(
            random_graph(_STREAMS, tree, rng, equal_cost_ms=1.0, transfer_cost_ms=cost)
        )
        plain.append(ruler.ratio(space, rod(space)))
        clustered.append(ruler.ratio(space, rod_with_clustering(space)))
        rates = drawn_rates(space, seed + number, _RUNS)
        linked.append(mean([ruler.ratio(space, connected(space, r)) for r in rates]))
    return {
        "tree": tree,
        "cost": cost,
        "rod": mean(plain),
        "clustered": mean(clustered),
        "connected": mean(linked),
        "beside_rod": mean(clustered) / mean(plain),
        "ratio_to_connected": mean(clustered) / mean(linked),
    }


def _column(rows: Sequence[dict[str, Value]], name: str, tree: int) -> list[float]:
    return [float(row[name] or 0.0) for row in rows if row["tree"] == tree]
