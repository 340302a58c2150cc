"""Points of the ideal set on executors: what is drawn, foretold, seen and said of it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.lab.studies.test_resilience_on_spark import batch, parsing

from elastream.model.errors import ProblemError, SparkError
from elastream.resilience.model.problem import ResilientProblem
from elastream.spark.sessions.embedded_cluster import scratch_folder
from elastream_lab.harness.commit_log import CommittedBatch
from elastream_lab.harness.job import Feed
from elastream_lab.harness.recording import write_recording
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.replaying import Replay
from elastream_lab.studies.resilience.pacing import fed_meanwhile, feed, next_trigger_s, waited_s
from elastream_lab.studies.resilience.point_runs import (
    SUBSTREAMS,
    _run,
    blocks,
    busiest,
    truth_so_far,
)
from elastream_lab.studies.resilience.points import Model
from elastream_lab.studies.resilience.truth import (
    ALL_METHODS,
    BLOCK,
    PointRun,
    SparkTruth,
    earlier_runs,
    truth_figures,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS, PAIRS, NODES = 3, 12, 3


def measured(fixed: float = 0.01, unplaced: float = 0.001) -> Model:
    """What a trial run of three streams with four operators each might have found."""
    load = np.kron(np.eye(STREAMS), np.array([[0.002], [0.003], [0.01], [0.012]]))
    problem = ResilientProblem.of(
        load.tolist(),
        [0.95, 0.9, 0.92],
        fixed=[fixed] * PAIRS,
        unplaced=[[unplaced] * STREAMS] * NODES,
    )
    return Model.of(problem, [1.0] * NODES)


def test_points_fill_the_ideal_set_and_do_not_leave_it() -> None:
    model = measured()
    nodes = model.place("rod", 0)
    used = [model.utilisation(nodes, rates).sum() for rates in model.points(0, 2000)]
    assert max(used) <= NODES + 1e-9
    assert max(used) > 0.98 * NODES, "near the ideal plane there are points too"
    least = PAIRS * 0.01 + NODES - sum(model.problem.capacity)
    assert min(used) >= least


@pytest.mark.parametrize("method", ALL_METHODS)
def test_the_part_of_many_points_that_is_foretold_is_the_volume_that_a_plan_tells(
    method: str,
) -> None:
    model = measured()
    nodes = model.place(method, 3)
    points = model.points(1, 4000)
    foretold = np.mean([model.utilisation(nodes, rates).max() <= 1 for rates in points])
    assert foretold == pytest.approx(model.volume(nodes), abs=0.03)


def test_what_an_executor_does_in_addition_and_what_cannot_be_placed_count() -> None:
    model = measured(fixed=0.02, unplaced=0.002)
    used = model.utilisation([0] * PAIRS, np.array([10.0, 0.0, 0.0]))
    assert used == pytest.approx([0.05 + 12 * 0.02 + 10 * 0.027 + 10 * 0.002, 0.12, 0.1])


def test_the_connected_rival_keeps_a_substream_together() -> None:
    nodes = measured(fixed=0.0, unplaced=0.0).place("connected", 0)
    together = [len(set(nodes[first : first + 4])) for first in range(0, PAIRS, 4)]
    assert sum(together) < PAIRS


def test_equal_seeds_give_equal_points_and_placements() -> None:
    assert (measured().points(5, 4) == measured().points(5, 4)).all()
    assert measured().place("random", 5) == measured().place("random", 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"points": 0},
        {"batches": 1},
        {"executors": 1},
        {"seed": -1},
        {"work": "dreamt"},
        {"trigger_s": 0.1},
        {"methods": ("best",)},
        {"methods": ("rod", "refined")},
        {"methods": ("llf", "random")},
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as refused:
        SparkTruth(**wrong)
    assert refused.value.field in wrong


def test_blocks_have_every_point_once() -> None:
    points = 2 * BLOCK + 3
    assert [point for block in blocks(points) for point in block] == list(range(points))
    assert len(blocks(points)) == 3


def committed(number: int, end: int, began_ms: float) -> CommittedBatch:
    return CommittedBatch(number, 0, end, began_ms, began_ms + 100)


def test_the_oldest_packet_that_no_batch_has_begun_shows_how_long_there_is_a_backlog() -> None:
    opened = [(1000.0, 10), (3000.0, 20), (5000.0, 30)]
    began = [committed(0, 10, 1100), committed(1, 20, 3200), committed(2, 30, 7100)]
    assert waited_s(began, opened, 7000) == 2.0
    assert waited_s(began[:1], opened, 7000) == 4.0
    assert waited_s(began, opened, 7200) == 0.0
    assert waited_s([committed(0, 10, 900)], [(1000.0, 10)], 3000) == 0.0, "no new packet"


def test_the_busiest_executor_is_counted_with_all_it_did_next_to_its_cores() -> None:
    seen = [
        parsing(batch(1500, 400, a=100, b=300), a=600),
        batch(3000, 800, a=200, b=500),
    ]
    assert busiest(seen, {"a": 1.0, "b": 1.0, "idle": 1.0}, 1000) == pytest.approx(0.9)
    assert busiest(seen, {"a": 2.0, "b": 1.0}, 1000) == pytest.approx(0.8)
    assert busiest([], {"a": 1.0}, 1000) == 0.0


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    feeds = []
    for name, rows in (("one", 100), ("other", 100)):
        made = write_recording(tmp_path / name, np.arange(rows), ["word"] * rows)
        feeds.append(Feed(made, ReplayClock(tmp_path / f"{name}-clock"), tmp_path / f"{name}-at"))
    return Replay(feeds, lambda: None)


def test_every_trigger_brings_its_packets_whatever_the_rate(replay: Replay) -> None:
    replay.open([4, 0])
    fed = feed(replay, [30.0, 10.0], triggers=3, trigger_s=0.05)
    assert [rows for _, rows in fed.opened] == [(6, 0), (7, 1), (8, 2)]
    assert fed.until_ms >= fed.opened[-1][0]
    assert replay.lead == (8, 2)
    assert replay.feeds[0].clock.rows_available(replay.feeds[0].recording, 0) == 8


def test_packets_come_for_the_next_trigger_that_they_are_in_time_for() -> None:
    assert next_trigger_s(10.0, 2.0) == 12.0
    assert next_trigger_s(11.97, 2.0) == 14.0
    assert next_trigger_s(11.85, 2.0) == 12.0, "no trigger is left out after one was fed"


def test_packets_go_on_coming_and_wait_where_two_triggers_are_not_read(replay: Replay) -> None:
    deadline_s = time.monotonic() + 60
    with fed_meanwhile(replay, lambda: [20.0, 40.0], trigger_s=0.05):
        while replay.lead < (2, 4) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        time.sleep(0.2)  # time for a third, which must not come: none of these is read
    assert replay.lead == (2, 4)


def test_more_packets_than_there_are_is_an_error(replay: Replay) -> None:
    with pytest.raises(SparkError, match="3,000 packets are wanted, 100 were made"):
        feed(replay, [60_000.0, 1.0], triggers=1, trigger_s=0.05)
    with (
        pytest.raises(SparkError, match="were made"),
        fed_meanwhile(replay, lambda: [60_000.0, 1.0], trigger_s=0.05),
    ):
        pass


def run(method: str, point: int, predicted: float, used: float, waited: float = 0.0) -> PointRun:
    return PointRun(method, point, (1.0, 2.0, 3.0), predicted, used, waited, 0.7)


def test_a_point_is_borne_where_no_executor_saturates_and_the_backlog_does_not_grow() -> None:
    assert run("rod", 0, 0.8, 0.99, waited=1.0).borne
    assert not run("rod", 0, 0.8, 1.0).borne
    assert not run("rod", 0, 0.8, 0.7, waited=2.0).borne
    assert run("rod", 0, 1.2, 1.1).agrees
    assert not run("rod", 0, 0.9, 1.1).agrees


GOOD = [
    *(run("rod", point, 0.7, 0.75) for point in range(10)),
    *(run("refined", point, 0.6, 0.65) for point in range(10)),
    *(run("llf", point, 0.8 + 0.05 * point, 0.82 + 0.05 * point) for point in range(10)),
]
STUDY = SparkTruth(points=10, methods=("rod", "refined", "llf"))


def test_the_figure_shows_what_was_measured_next_to_what_was_foretold() -> None:
    ratios, each = truth_figures(GOOD, STUDY, "made")
    assert ratios.trend_holds
    rows = {row["method"]: row for row in ratios.rows}
    assert list(rows) == ["rod", "refined", "llf"]
    assert rows["rod"]["measured_ratio"] == rows["rod"]["predicted_ratio"] == 1
    assert (rows["llf"]["measured_ratio"], rows["llf"]["predicted_ratio"]) == (0.4, 0.4)
    assert rows["llf"]["saturated"] == 6
    assert len(each.rows) == len(GOOD)
    for figure in (ratios, each):
        assert figure.curves is not None
        assert {figure.curves.x, *figure.curves.y} <= set(figure.rows[0])
    json.dumps([figure.as_json("resilience") for figure in (ratios, each)], allow_nan=False)


def test_the_verdict_fails_where_the_model_is_wrong() -> None:
    wrong = [replace(one, used=1.2) if one.point < 2 else one for one in GOOD]
    ratios, _ = truth_figures(wrong, STUDY, "made")
    assert not ratios.trend_holds
    assert "80.0% of the runs" in ratios.says
    assert [row["too_hopeful"] for row in ratios.rows] == [2, 2, 2]


def test_the_verdict_fails_where_a_rival_bears_more() -> None:
    swapped = [
        replace(one, method={"rod": "llf", "llf": "rod"}.get(one.method, one.method))
        for one in GOOD
    ]
    ratios, _ = truth_figures(swapped, STUDY, "made")
    assert not ratios.trend_holds
    assert "fewer than a rival" in ratios.says


def written(folder: Path, name: str, runs: Sequence[PointRun], study: SparkTruth = STUDY) -> Path:
    figures = truth_figures(runs, study, "made")
    path = folder / name
    path.write_text(json.dumps([figure.as_json("resilience") for figure in figures]))
    return path


def test_points_of_earlier_runs_are_joined(tmp_path: Path) -> None:
    more = [replace(one, seed=1, used=one.used + 0.2) for one in GOOD]
    first, second = written(tmp_path, "0.json", GOOD), written(tmp_path, "1.json", more)
    known = earlier_runs([first, second], replace(STUDY, seed=2))
    assert sorted(known, key=str) == sorted([*GOOD, *more], key=str)
    ratios, each = truth_figures(known, STUDY, "made")
    assert ratios.data.startswith("20 points")
    assert ratios.data.endswith("seeds 0, 1")
    assert len(each.rows) == len(known)
    assert [row["measured_ratio"] for row in ratios.rows] == [1, 1, 0.2]


def test_earlier_runs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "0.json", GOOD)
    for study, why in (
        (STUDY, "seed 0, which are there already"),
        (replace(STUDY, seed=1, batches=7), "was run otherwise"),
        (replace(STUDY, seed=1, work="burnt"), "was run otherwise"),
        (replace(STUDY, seed=1, methods=("rod", "llf")), "`methods` are others"),
    ):
        with pytest.raises(ProblemError, match=why):
            earlier_runs([path], study)
    with pytest.raises(ProblemError, match="there already"):
        earlier_runs([path, path], replace(STUDY, seed=1))
    cut = tmp_path / "cut.json"
    cut.write_text(path.read_text().replace('"volume"', '"else"'))
    with pytest.raises(ProblemError, match="a row without 'volume'"):
        earlier_runs([cut], replace(STUDY, seed=1))
    cut.write_text(json.dumps([{"figure": "003 fig. 14 (on Spark, each run)"}]))
    with pytest.raises(ProblemError, match="was run otherwise: None"):
        earlier_runs([cut], STUDY)
    cut.write_text("[]")
    with pytest.raises(ProblemError, match="no points on executors"):
        earlier_runs([cut], STUDY)


def test_a_run_that_is_cut_short_reports_the_points_that_all_placements_had() -> None:
    cut = [one for one in GOOD if one.point < 3 or (one.point == 3 and one.method != "llf")]
    ratios, each = truth_so_far(STUDY, cut)
    assert ratios.data.startswith("3 points")
    assert {row["point"] for row in each.rows} == {1, 2, 3}
    assert truth_so_far(STUDY, [one for one in GOOD if one.method == "rod"]) == ()


def test_the_table_in_the_docs_is_that_of_the_runs_next_to_it() -> None:
    docs = Path(__file__).parents[3] / "lab" / "docs"
    runs = earlier_runs([docs / "figure-14.json"], SparkTruth(seed=0))
    page = (docs / "resilience.md").read_text()
    ratios, _ = truth_figures(runs, SparkTruth(), "")
    points = len(runs) // len(ALL_METHODS)
    report = {}
    table = page.split(f"of {points} points borne")[1]
    for line in takewhile(lambda line: line.startswith("|"), table.split("\n")[2:]):
        name, *cells = (cell.strip(" *") for cell in line.strip("|").split("|"))
        report[name.lower()] = cells
    assert report == {
        row["method"]: [
            f"{row['measured_ratio'] * points:.0f}",
            f"{row['predicted_ratio'] * points:.0f}",
            *(
                f"{row[column]:.2f}"
                for column in ("volume", "measured_utilisation", "predicted_utilisation")
            ),
        ]
        for row in ratios.rows
    }
    right = sum(run.agrees for run in runs)
    assert f"right of {right} of the {len(runs)} runs" in page


@pytest.mark.slow
def test_points_run_on_live_executors_under_one_placement_after_the_other(
    spark: SparkSession,
) -> None:
    study = SparkTruth(
        points=2, batches=2, executors=2, methods=("rod", "connected", "random"), warm_batches=2
    )
    lines: list[str] = []
    folder = Path(tempfile.mkdtemp(dir=scratch_folder(spark)))
    runs: list[PointRun] = []
    _run(spark, study, folder, lines.append, runs)
    assert {(one.method, one.point) for one in runs} == {
        (method, point) for method in study.methods for point in range(2)
    }
    assert all(len(one.rates) == SUBSTREAMS for one in runs)
    assert all(one.used > 0 and one.predicted > 0 and 0 < one.volume <= 1 for one in runs)
    assert any("foretold" in line for line in lines)
    truth_figures(runs, study, "made packets")
