from __future__ import annotations

import json
import math
from itertools import count
from pathlib import Path
from statistics import fmean

import pytest

from elastream.cli.main import main
from elastream.model.plan import Infeasible
from elastream.replication.planner.exact import replication
from elastream_lab.studies.replication.hour import (
    WEIGHTINGS,
    Hour,
    hour,
    restricted_figure,
    table_three,
)
from elastream_lab.studies.replication.reference import ans_network, made_network, reference_problem
from elastream_lab.studies.replication.scale import PAPER, table_four, table_four_cells

pytestmark = pytest.mark.xdist_group("replication study")  # the hours are made once


@pytest.fixture(scope="module")
def hours() -> list[Hour]:
    """Every fourth minute or so of the first two weightings; the study itself takes all."""
    return [hour(weighting, compared=True, minutes=16) for weighting in WEIGHTINGS[:2]]


def test_counting_downtime_cuts_it_at_hardly_more_response_time(hours: list[Hour]) -> None:
    summary = table_three(hours)
    baseline, balanced = hours
    assert balanced.downtime_s * 3 <= baseline.downtime_s
    assert balanced.mean_response_ms <= 1.05 * baseline.mean_response_ms
    assert summary.trend_holds


def test_the_restricted_problem_comes_within_two_percent(hours: list[Hour]) -> None:
    for each in hours:
        assert fmean(minute.restricted_ratio for minute in each.minutes) <= 1.02


def test_load_rises_and_falls_and_the_replicas_with_it(hours: list[Hour]) -> None:
    baseline = hours[0]
    rates = [minute.rate for minute in baseline.minutes]
    assert (rates[0], max(rates), rates[-1]) == (70, 220, 70)
    replicas = [minute.replicas for minute in baseline.minutes]
    assert replicas[0] == replicas[-1] == 8
    assert max(replicas) > 8


def test_the_summaries_have_the_fields_of_the_contract(hours: list[Hour]) -> None:
    for summary in (table_three(hours), restricted_figure(hours, hours)):
        fields = summary.as_json("replication")
        assert list(fields) == ["study", "figure", "data", "rows", "trend_holds", "says"]
        json.dumps(fields, allow_nan=False)


def test_table_four_is_measured_cell_by_cell_and_agrees_with_the_program() -> None:
    ticking = count()
    cells = list(
        table_four_cells(
            sizes=(4,),
            degrees=(2,),
            milp_limit_s=math.inf,
            milp_most_variables=10_000,
            clock=lambda: float(next(ticking)),
            rate=90,
        )
    )
    assert [(cell.nodes, cell.max_replicas, cell.problem) for cell in cells] == [
        (4, 2, "EDRP"),
        (4, 2, "rEDRP"),
    ]
    assert all(cell.proven for cell in cells)
    assert all(cell.milp_agrees for cell in cells)
    assert table_four(cells, math.inf).trend_holds


def test_every_cell_of_the_papers_table_is_there() -> None:
    assert len(PAPER) == 5 * 3 * 2
    assert PAPER[24, 2, "EDRP"] == (453.3, 593.7)


def test_the_reference_application_is_the_papers() -> None:
    setting = ans_network()
    problem = reference_problem(setting, 100)
    assert len(setting.network.names) == 15
    assert setting.network.mean_delay_ms == pytest.approx(32)
    assert len(problem.operators) == 8
    assert problem.input_rates[0] == 100


def test_made_networks_have_the_places_that_were_asked_for() -> None:
    setting = made_network(30, 2)
    assert len(setting.network.names) == 30
    plan = replication(reference_problem(setting, 100))
    assert not isinstance(plan, Infeasible)


def test_the_command_writes_a_table_a_picture_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, picture = tmp_path / "hour.json", tmp_path / "hour.svg"
    options = ["--part", "hour", "--minutes", "2", "--json", str(report), "--picture", str(picture)]
    assert main(["study", "replication", *options]) == 0
    assert "table III" in capsys.readouterr().out
    assert [each["figure"] for each in json.loads(report.read_text())] == [
        "004 table III, figure 5",
        "004 section 7.2, rEDRP (not shown there)",
    ]
    assert picture.read_text().startswith("<?xml")
