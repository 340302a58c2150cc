"""Studies on data of somebody's own, in place of made ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from elastream.model.errors import ProblemError
from elastream.resilience.model.problem import ResilientProblem
from elastream_lab.applications.traffic.packets import Packets
from elastream_lab.studies.look_ahead.series import Series
from elastream_lab.studies.replication.hour import WEIGHTINGS, hour, rates_of, table_three
from elastream_lab.studies.replication.on_spark import study_settings
from elastream_lab.studies.resilience.given import of_one_graph
from elastream_lab.studies.resilience.latency import latency_of_packets


def test_a_graph_of_ones_own_is_placed_by_every_method() -> None:
    load = np.random.default_rng(1).uniform(0.1, 1.0, (12, 2)).tolist()
    figure = of_one_graph(ResilientProblem.of(load, [1.0, 1.0, 1.0]), "mine.json", 0)
    ratios = {row["method"]: row["ratio_to_ideal"] for row in figure.rows}
    assert set(ratios) == {"refined", "rod", "correlation", "llf", "random", "connected"}
    assert 0 < ratios["rod"] <= ratios["refined"] <= 1
    assert figure.data.startswith("mine.json: 12 operators, 2 inputs, 3 nodes")
    rivals = [ratio for name, ratio in ratios.items() if name not in ("rod", "refined")]
    assert figure.trend_holds == (ratios["rod"] >= max(rivals))


def packets(sources: int, count: int = 4000) -> Packets:
    random = np.random.default_rng(2)
    times = np.sort(random.integers(0, 600_000_000, count))
    names = pa.array([f"host{n}" for n in random.integers(0, sources, count)])
    return Packets(times, names, names, pa.nulls(count, pa.int64()))


@pytest.mark.slow
def test_packets_of_ones_own_are_split_by_their_sources() -> None:
    figure = latency_of_packets(packets(200), "mine.log", 0)
    assert figure.data.startswith("4,000 packets of mine.log, 600 s in 500 steps, 5 nodes")
    assert len({row["method"] for row in figure.rows}) == 7
    assert all(row["mean_ms"] <= row["worst_ms"] for row in figure.rows)


def test_too_few_sources_or_no_time_at_all_are_reported() -> None:
    with pytest.raises(ProblemError, match=r"mine.log has too few sources"):
        latency_of_packets(packets(1), "mine.log", 0)
    still = packets(50, 4)
    at_once = Packets(still.time_us * 0, still.source, still.destination, still.size)
    with pytest.raises(ProblemError, match="no two packets at different times"):
        latency_of_packets(at_once, "mine.log", 0)


def test_a_load_of_ones_own_is_the_hour_at_the_papers_highest_rate() -> None:
    counts = np.array([10.0, 10.0, 30.0, 30.0, 20.0, 20.0, 0.0, 0.0])
    series = Series("mine", np.arange(8.0), counts, 1.0)
    rates = rates_of(series, 3)
    assert rates == pytest.approx([220 / 3, 220, 440 / 3, 1.0])
    figure = table_three([hour(weighting, rates=rates) for weighting in WEIGHTINGS[:2]], "mine.csv")
    assert "rates of mine.csv" in figure.data
    reports = [minute["rate"] for minute in figure.rows[0]["minutes"]]
    assert reports == pytest.approx(rates, abs=1e-3)
    with pytest.raises(ProblemError, match="mine holds no counts above 0"):
        rates_of(Series("mine", np.arange(8.0), counts * 0, 1.0), 3)


def test_trips_of_ones_own_are_replayed_in_place_of_made_ones() -> None:
    assert study_settings(30.0, trips=Path("trips.csv")).input == (Path("trips.csv"),)
    assert study_settings(30.0).input == ()
