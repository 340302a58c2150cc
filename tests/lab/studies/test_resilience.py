from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from elastream.cli.main import main
from elastream.resilience.planner import feasible_set, refined
from elastream_lab.applications.traffic.bursts import bursty_rates
from elastream_lab.studies.figure import Figure, falls, rises
from elastream_lab.studies.resilience import clustering as resilience_clustering
from elastream_lab.studies.resilience import errors as resilience_errors
from elastream_lab.studies.resilience import latency as resilience_latency
from elastream_lab.studies.resilience import sizes as resilience_sizes
from elastream_lab.studies.resilience.figures import FIGURES
from elastream_lab.studies.resilience.graphs import random_graph, with_errors
from elastream_lab.studies.resilience.latency import queues_s
from elastream_lab.studies.resilience.planes import planes


@pytest.fixture(autouse=True)
def little_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refined, "_BUDGET", 1e5)
    monkeypatch.setattr(feasible_set, "_LAST_LOG2", 9)
    monkeypatch.setattr(resilience_sizes, "_OPERATORS", (10, 25))
    monkeypatch.setattr(resilience_sizes, "_INPUTS", (2, 3))
    monkeypatch.setattr(resilience_sizes, "_TREE", 6)
    monkeypatch.setattr(resilience_clustering, "_TREES", (4, 6))
    monkeypatch.setattr(resilience_clustering, "_COSTS", (0.0, 1.0))
    monkeypatch.setattr(resilience_errors, "_TREE", 5)
    monkeypatch.setattr(resilience_latency, "_LOG2_STEPS", 8)
    monkeypatch.setattr(resilience_latency, "_AGGREGATIONS", 4)


@pytest.mark.parametrize(("inputs", "tree"), [(1, 1), (2, 7), (5, 20)])
def test_a_random_graph_has_trees_of_equal_size_and_the_papers_spread(
    inputs: int, tree: int
) -> None:
    graph = random_graph(inputs, tree, np.random.default_rng(0))
    names = [operator.name for operator in graph.operators]
    assert [sum(n.startswith(f"I{k}.") for n in names) for k in range(inputs)] == [tree] * inputs
    assert all(0.1 <= operator.cost <= 1 for operator in graph.operators)
    below_one = [o.selectivity for o in graph.operators if o.selectivity != 1]
    assert len(below_one) == inputs * tree // 2
    assert all(s is not None and 0.5 <= s < 1 for s in below_one)
    readers = [sum(name in o.inputs for o in graph.operators) for name in names]
    assert max(readers) <= 3


def test_errors_stay_within_their_level() -> None:
    rng = np.random.default_rng(1)
    graph = random_graph(2, 10, rng)
    measured = with_errors(graph, 0.3, rng)
    for true, wrong in zip(graph.operators, measured.operators, strict=True):
        assert 0.7 * true.cost <= wrong.cost <= 1.3 * true.cost
    assert with_errors(graph, 0.0, rng) == graph


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in ("9", "table3")])
def test_every_figure_is_made_and_made_alike_from_the_same_seed(name: str) -> None:
    made = FIGURES[name](3, 1)
    again = FIGURES[name](3, 1)
    assert [figure.as_json("resilience") for figure in made] == [
        figure.as_json("resilience") for figure in again
    ]
    for figure in made:
        json.dumps(figure.as_json("resilience"), allow_nan=False)
        assert figure.rows
        assert figure.curves is not None
        columns = {figure.curves.x, *figure.curves.y}
        assert all(columns <= row.keys() for row in figure.rows)


def test_figure_9_shows_the_trend_and_its_bound() -> None:
    figure = planes(0)
    assert figure.trend_holds
    assert all(row["least"] <= row["mean"] <= row["largest"] for row in figure.rows)


def test_trends_are_distinguished() -> None:
    assert rises([1, 2, 3])
    assert not rises([1, 3, 2])
    assert rises([1, 3, 2.9], slack=0.2)
    assert not rises([1, 1, 1])
    assert falls([3, 2, 1])
    assert not falls([1, 2, 3])


def test_waiting_work_follows_the_recursion() -> None:
    load = np.random.default_rng(0).uniform(0, 2, size=200)
    waiting, expected = 0.0, []
    for step in load:
        waiting = max(0.0, waiting + (step - 1) * 0.5)
        expected.append(waiting)
    assert queues_s(load, 0.5) == pytest.approx(expected)


def test_traffic_keeps_its_mean_and_bursts_at_every_scale() -> None:
    rates = bursty_rates(np.random.default_rng(0), 12, 0.6)
    assert rates.mean() == pytest.approx(1)
    spreads = [rates.reshape(-1, 4**k).mean(axis=1).std() for k in range(5)]
    assert all(coarse > 0.3 for coarse in spreads)
    assert spreads == sorted(spreads, reverse=True)


def test_the_simulated_latency_grows_with_the_rate_for_every_method() -> None:
    figure = resilience_latency.latency(0, 1)
    for method in {row["method"] for row in figure.rows}:
        means = [row["mean_ms"] for row in figure.rows if row["method"] == method]
        assert means == sorted(means)


def test_the_command_writes_the_contract_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    written, picture = tmp_path / "r.json", tmp_path / "r.png"
    options = ["--figures", "16,17", "--graphs", "1", "--seed", "5"]
    files = ["--json", str(written), "--picture", str(picture)]
    assert main(["study", "resilience", *options, *files]) == 0
    figures = json.loads(written.read_text())
    assert [figure["figure"] for figure in figures] == [
        "003 fig. 16a", "003 fig. 16b", "003 fig. 17a", "003 fig. 17b",
    ]  # fmt: skip
    assert set(figures[0]) == {"study", "figure", "data", "rows", "trend_holds", "says"}
    assert picture.stat().st_size > 10_000
    assert "fig. 16a" in capsys.readouterr().out


def test_the_latency_command_writes_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "l.json"
    assert main(["study", "latency", "--hours", "1", "--json", str(written)]) == 0
    (figure,) = json.loads(written.read_text())
    assert (figure["study"], figure["figure"]) == ("latency", "003 fig. 18 (simulated)")
    assert "mean ms" in capsys.readouterr().out


def test_an_unknown_figure_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["study", "resilience", "--figures", "9,12"]) == 2
    assert "there is no '12'" in capsys.readouterr().err


def test_a_failed_study_still_writes_what_it_has_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_seed: int, _hours: int) -> Figure:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(resilience_latency, "latency", fail)
    written = tmp_path / "l.json"
    assert main(["study", "latency", "--json", str(written)]) == 1
    (fields,) = json.loads(written.read_text())
    assert fields["study"] == "latency"
    assert "out of luck" in fields["error"]
    capsys.readouterr()
