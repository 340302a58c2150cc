from __future__ import annotations

from typing import Any

import pytest

from elastream.model.errors import ProblemError
from elastream_lab.studies.replication.network import network_of, topology_named

TRIANGLE: dict[str, Any] = {
    "nodes": [
        {"id": 0, "name": "Rome", "pos": [12.5, 41.9]},
        {"id": 1, "name": "Milan", "pos": [9.2, 45.5]},
        {"id": 2, "name": "Bari", "pos": [16.9, 41.1]},
    ],
    "edges": [{"source": 0, "target": 1}, {"source": 0, "target": 2}],
}


def test_delay_follows_the_shortest_way_not_the_crow() -> None:
    network = network_of(TRIANGLE, ms_per_km=1)
    km = network.delay_ms
    assert km[0][1] == pytest.approx(480, rel=0.02)
    assert km[1][2] == pytest.approx(km[0][1] + km[0][2])
    assert [km[u][u] for u in range(3)] == [0, 0, 0]


def test_places_that_do_not_compute_still_forward() -> None:
    turned = {"nodes": TRIANGLE["nodes"][::-1], "edges": TRIANGLE["edges"]}
    two = network_of(turned, places=2, ms_per_km=1)
    assert two.names == ("Bari", "Milan")
    assert two.delay_ms[0][1] == pytest.approx(network_of(TRIANGLE, ms_per_km=1).delay_ms[1][2])


def test_delays_can_be_stretched_to_a_mean() -> None:
    network = network_of(TRIANGLE).with_mean_delay_ms(32)
    assert network.mean_delay_ms == pytest.approx(32)


def test_links_cost_the_same_everywhere_but_at_home() -> None:
    assert network_of(TRIANGLE).links(0.02).cost == (
        (0, 0.02, 0.02),
        (0.02, 0, 0.02),
        (0.02, 0.02, 0),
    )


def test_a_place_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(ProblemError, match="no way leads from Rome to Bari"):
        network_of({**TRIANGLE, "edges": TRIANGLE["edges"][:1]})


def test_an_edge_to_nowhere_and_a_node_without_a_place_are_named() -> None:
    with pytest.raises(ProblemError, match=r"topology.edges\[0\].target: there is no node 9"):
        network_of({**TRIANGLE, "edges": [{"source": 0, "target": 9}]})
    with pytest.raises(ProblemError, match=r"topology.nodes\[0\].pos: None is not a position"):
        network_of({"nodes": [{"id": 0, "name": "Rome"}], "edges": []})


def test_names_that_are_missing_or_not_unique_get_a_number() -> None:
    nodes = [{"id": i, "name": name, "pos": [i, i]} for i, name in enumerate(["x", "x", "", "y"])]
    edges = [{"source": 0, "target": i} for i in range(1, 4)]
    assert network_of({"nodes": nodes, "edges": edges}).names == ("x 0", "x 1", "node 2", "y")


def test_the_ans_backbone_is_there() -> None:
    network = network_of(topology_named("topozoo/Ans"))
    assert len(network.names) == 18
    assert "New York" in network.names
    with pytest.raises(ProblemError, match="topohub has none called 'topozoo/Nowhere'"):
        topology_named("topozoo/Nowhere")
