from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from elastream.harness.commit_log import CommittedBatch
from elastream_lab.applications.taxi.run import Span
from elastream_lab.studies.replication.on_spark import (
    LIVE,
    PAUSE,
    RUNS,
    Moment,
    Outcome,
    downtime_s,
    study_settings,
    table_five,
)
from elastream_lab.studies.replication.on_spark_picture import draw_runs


def batches(*finished_s: float) -> list[CommittedBatch]:
    return [
        CommittedBatch(number, number, number + 1, 1000 * at_s - 500, 1000 * at_s)
        for number, at_s in enumerate(finished_s)
    ]


def test_downtime_is_the_longest_wait_for_a_batch_beyond_the_usual_one() -> None:
    committed = batches(1, 2, 3, 4, 9, 10, 11)
    assert downtime_s(committed, [Span(4500, 8000)]) == pytest.approx(4)
    assert downtime_s(committed, [Span(4500, 8000), Span(9500, 9600)]) == pytest.approx(4)


def test_without_a_reconfiguration_there_is_none_however_slow_a_batch_is() -> None:
    assert downtime_s(batches(1, 2, 3, 9), []) == 0


def test_a_batch_quicker_than_usual_is_no_negative_downtime() -> None:
    assert downtime_s(batches(1, 3, 5, 6, 7), [Span(5100, 5200)]) == 0


def outcomes() -> list[Outcome]:
    made = []
    for weighting, mechanism in RUNS:
        counted = weighting.name != "baseline"
        down = (1.0 if counted else 9.0) if mechanism == PAUSE else 0.5
        made.append(
            Outcome(
                weighting=weighting,
                mechanism=mechanism,
                seconds=60.0,
                response_ms=2000.0,
                p99_ms=4000.0,
                cost=5.5,
                downtime_s=down,
                reconfigurations=1 if counted else 3,
                exact=True,
                moments=(Moment(1.0, 2000.0, 20.0, 5), Moment(3.0, 2100.0, 22.0, 6)),
                changes_s=(2.0,),
            )
        )
    return made


def test_table_five_has_the_fields_of_the_contract_and_judges_the_trend() -> None:
    made = outcomes()
    told = table_five(made, study_settings(60)).as_json("replication")
    assert list(told) == ["study", "figure", "data", "rows", "trend_holds", "says"]
    json.dumps(told, allow_nan=False)
    assert told["trend_holds"]
    wrong = [replace(each, exact=False) if each.mechanism == LIVE else each for each in made]
    assert not table_five(wrong, study_settings(60)).trend_holds
    slow = [replace(each, downtime_s=30.0) if each.mechanism == LIVE else each for each in made]
    assert not table_five(slow, study_settings(60)).trend_holds


def test_the_runs_are_drawn(tmp_path: Path) -> None:
    draw_runs(outcomes(), tmp_path / "runs.svg")
    assert "<svg" in (tmp_path / "runs.svg").read_text()
