from __future__ import annotations

from collections import Counter

import pytest

from elastream_lab.benchmarks import _graphs, replication_graphs, replication_parts
from elastream_lab.benchmarks._graphs import GRAPHS, Graph


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{graph.name} {graph.operators}")
def test_a_graph_has_its_operators_and_no_cycle(graph: Graph) -> None:
    edges = graph.edges(graph.operators)
    assert {operator for edge in edges for operator in edge} == set(range(graph.operators))
    assert all(source < target for source, target in edges)
    fed = Counter(target for _, target in edges)
    most = {"chain": 1, "diamonds in a row": 2, "tree of joins": 2}[graph.name]
    assert max(fed.values()) == most


def test_the_table_by_graph_says_what_is_proven_and_what_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(replication_graphs, "GRAPHS", (Graph("chain", 5, _graphs.chain),))
    replication_graphs.run()
    assert "not proven" not in capsys.readouterr().out
    monkeypatch.setattr(replication_graphs, "_EFFORT", 1.0)
    replication_graphs.run()
    assert "3 not proven, gap to" in capsys.readouterr().out


def test_every_part_of_the_solver_can_be_left_out_and_the_plans_stay_as_good(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(replication_parts, "_CASES", ((8, 2, 1),))
    monkeypatch.setattr(replication_parts, "_RATE", 150.0)
    replication_parts.run()
    shown = capsys.readouterr().out
    assert all(part in shown for part in replication_parts._PARTS)
    assert "proven" not in shown, "each proves every problem"
