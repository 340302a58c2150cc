from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from elastream.harness.commit_log import CommittedBatch
from elastream.model.errors import ProblemError
from elastream_lab.applications.taxi.run import Span
from elastream_lab.studies.replication.affected import affected_by
from elastream_lab.studies.replication.on_spark import (
    LIVE,
    PAUSE,
    RUNS,
    Moment,
    Outcome,
    chosen_runs,
    study_settings,
    table_five,
)
from elastream_lab.studies.replication.on_spark_picture import draw_runs


def batches(*finished_s: float) -> list[CommittedBatch]:
    return [
        CommittedBatch(number, number, number + 1, 1000 * at_s - 500, 1000 * at_s)
        for number, at_s in enumerate(finished_s)
    ]


def downtime_s(committed: list[CommittedBatch], changes: list[Span]) -> float:
    return sum(each.excess_s for each in affected_by(committed, changes))


def test_downtime_is_what_all_batches_of_a_change_come_later_together() -> None:
    committed = batches(1, 2, 3, 4, 9, 12, 13, 14, 17)
    (change,) = affected_by(committed, [Span(4500, 8000)])
    assert change.batches == {4, 5}, "until one is as usual again"
    assert change.excess_s == pytest.approx(4 + 2)
    assert downtime_s(committed, [Span(4500, 8000), Span(14_500, 14_600)]) == pytest.approx(8)


def test_a_batch_counts_for_one_change_only() -> None:
    committed = batches(1, 2, 3, 4, 9, 10)
    assert downtime_s(committed, [Span(4500, 8000), Span(8100, 8200)]) == pytest.approx(4)


def test_a_load_that_has_risen_is_no_downtime_for_ever() -> None:
    committed = batches(1, 2, 3, 4, *(4 + 3 * each for each in range(1, 20)))
    (change,) = affected_by(committed, [Span(4500, 5000)])
    assert len(change.batches) == 6


def test_without_a_reconfiguration_there_is_none_however_slow_a_batch_is() -> None:
    assert downtime_s(batches(1, 2, 3, 9), []) == 0


def test_a_batch_quicker_than_usual_is_no_negative_downtime() -> None:
    assert downtime_s(batches(1, 3, 5, 6, 7), [Span(5100, 5200)]) == 0


def test_runs_are_chosen_by_weighting_and_mechanism() -> None:
    assert chosen_runs([], []) == RUNS
    assert [each.name for each, _ in chosen_runs(["cost", "baseline"], [LIVE])] == [
        "baseline",
        "cost",
    ]
    with pytest.raises(ProblemError, match="weightings: 'fast' is not one"):
        chosen_runs(["fast"], [])
    with pytest.raises(ProblemError, match="mechanisms: 'kill' is not one; use live, pause"):
        chosen_runs([], ["kill"])
    partly = table_five(outcomes()[:1], study_settings(60))
    assert not partly.trend_holds
    assert "Not all runs" in partly.says


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
                outside_ms=1900.0,
                p99_ms=4000.0,
                cost=5.5,
                downtime_s=down,
                scalings=1,
                migrations=0 if counted else 2,
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
