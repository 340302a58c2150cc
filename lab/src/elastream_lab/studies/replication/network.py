"""A resource graph from a map of a network (paper 004, sections 3.1 and 7.2).

A topology has nodes with coordinates and edges between them, in the node-link form of NetworkX and
of the package ``topohub``, which carries the ANS backbone and hundreds of others. Data takes the
shortest way; its delay is the length of that way times the delay of a kilometre. Every place of
the network forwards data, the first few, or all, compute.

NetworkX finds the ways; both libraries come with the lab.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elastream.model.checks import abbreviate, count
from elastream.model.errors import ProblemError
from elastream.replication.model.problem import Links

FIBRE_MS_PER_KM = 0.005
"""Light in glass covers about 200 km in a millisecond."""
_EARTH_KM = 6371.0


@dataclass(frozen=True, slots=True)
class Network:
    """Places and the delays between them."""

    names: tuple[str, ...]
    delay_ms: tuple[tuple[float, ...], ...]

    @property
    def mean_delay_ms(self) -> float:
        """Mean over all ordered pairs of different places."""
        pairs = len(self.names) * (len(self.names) - 1)
        return sum(map(sum, self.delay_ms)) / pairs if pairs else 0.0

    def with_mean_delay_ms(self, mean_ms: float) -> Network:
        """Return the network with all delays stretched so that their mean is ``mean_ms``."""
        stretch = mean_ms / self.mean_delay_ms
        rows = (tuple(stretch * delay for delay in row) for row in self.delay_ms)
        return Network(self.names, tuple(rows))

    def links(self, cost: float) -> Links:
        """Return the links of a problem; staying on a node is free, any way costs the same."""
        places = range(len(self.names))
        costs = tuple(tuple(0.0 if u == v else cost for v in places) for u in places)
        return Links(self.delay_ms, costs)


def topology_named(key: str) -> Mapping[str, Any]:
    """Return a topology of ``topohub``, such as ``topozoo/Ans`` or ``gabriel/25/0``."""
    import json
    from importlib.resources import files

    try:
        text = (files("topohub") / f"data/{key}.json").read_text()
    except (OSError, ValueError):
        raise ProblemError("topology", f"topohub has none called {abbreviate(key)}") from None
    found: Mapping[str, Any] = json.loads(text)
    return found


def network_of(
    topology: Mapping[str, Any],
    *,
    places: int | None = None,
    ms_per_km: float = FIBRE_MS_PER_KM,
) -> Network:
    """Return the first ``places`` of a topology (None: all) and the shortest ways among them."""
    import networkx

    nodes = topology["nodes"]
    if not nodes:
        raise ProblemError("topology.nodes", "is empty; give at least one")
    chosen = nodes if places is None else nodes[: count("places", places, least=1, most=len(nodes))]
    at = {node["id"]: _position(number, node) for number, node in enumerate(nodes)}
    graph = networkx.Graph()
    graph.add_nodes_from(at)
    for number, edge in enumerate(topology["edges"]):
        for end in ("source", "target"):
            if edge[end] not in at:
                raise ProblemError(
                    f"topology.edges[{number}].{end}", f"there is no node {abbreviate(edge[end])}"
                )
        source, target = edge["source"], edge["target"]
        graph.add_edge(source, target, km=_distance_km(at[source], at[target]))
    names = _names(chosen)
    rows = []
    for node, name in zip(chosen, names, strict=True):
        km = networkx.single_source_dijkstra_path_length(graph, node["id"], weight="km")
        for other, other_name in zip(chosen, names, strict=True):
            if other["id"] not in km:
                raise ProblemError("topology", f"no way leads from {name} to {other_name}")
        rows.append(tuple(ms_per_km * km[other["id"]] for other in chosen))
    return Network(names, tuple(rows))


def _position(number: int, node: Mapping[str, Any]) -> tuple[float, float]:
    """Return longitude and latitude in degrees."""
    position = node.get("pos")
    if not isinstance(position, Sequence) or len(position) != 2:
        raise ProblemError(
            f"topology.nodes[{number}].pos", f"{abbreviate(position)} is not a position"
        )
    return float(position[0]), float(position[1])


def _distance_km(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the length of the great circle between two positions (haversine)."""
    east, north = (math.radians(b - a) for a, b in zip(one, other, strict=True))
    cosines = math.cos(math.radians(one[1])) * math.cos(math.radians(other[1]))
    half = math.sin(north / 2) ** 2 + cosines * math.sin(east / 2) ** 2
    return 2 * _EARTH_KM * math.asin(math.sqrt(min(1.0, half)))


def _names(nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the nodes' names, with the number where a name is missing or not the only one."""
    given = [str(node.get("name") or "") for node in nodes]
    often = Counter(given)
    return tuple(
        name if name and often[name] == 1 else f"{name or 'node'} {node['id']}"
        for name, node in zip(given, nodes, strict=True)
    )
