from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastream.model.errors import ProblemError
from elastream_lab.applications.taxi.recorded_trips import TimeSlice
from elastream_lab.applications.taxi.run import Span, TaxiSample, TaxiSettings
from elastream_lab.cli.study.replication import replication
from elastream_lab.harness import job_session
from elastream_lab.harness.commit_log import CommittedBatch
from elastream_lab.studies.machine import QuietHost
from elastream_lab.studies.replication import on_spark
from elastream_lab.studies.replication.affected import affected_by
from elastream_lab.studies.replication.on_spark import (
    RUNS,
    chosen_runs,
    how_run,
    replicas_at,
    study_settings,
)
from elastream_lab.studies.replication.on_spark_picture import draw_runs
from elastream_lab.studies.replication.table_five import (
    Moment,
    Outcome,
    earlier_outcomes,
    table_five,
)

HOW = how_run(study_settings(60))


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


def test_replicas_are_those_of_the_last_sample_or_of_the_first_one_to_come() -> None:
    samples = [TaxiSample(2.0, {0: ("a",)}), TaxiSample(5.0, {0: ("a", "b"), 1: ("a",)})]
    assert [replicas_at(samples, at_s) for at_s in (1.0, 3.0, 6.0)] == [1, 1, 3]
    assert replicas_at([], 1.0) == 0


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


def test_runs_are_chosen_by_weighting() -> None:
    assert chosen_runs([]) == RUNS
    assert [each.name for each in chosen_runs(["cost", "baseline"])] == ["baseline", "cost"]
    every = "use baseline, balanced, response time, cost"
    with pytest.raises(ProblemError, match=f"weightings: 'fast' is not one; {every}"):
        chosen_runs(["fast"])
    partly = table_five(made_outcomes()[:1], HOW)
    assert not partly.trend_holds
    assert "Not all runs" in partly.says


def made_outcomes() -> list[Outcome]:
    made = []
    for weighting in RUNS:
        counted = weighting.name != "baseline"
        down = 1.0 if counted else 9.0
        made.append(
            Outcome(
                weighting=weighting,
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
    made = made_outcomes()
    fields = table_five(made, HOW).as_json("replication")
    assert list(fields) == ["study", "figure", "data", "rows", "trend_holds", "says"]
    json.dumps(fields, allow_nan=False)
    assert fields["trend_holds"]
    wrong = [replace(each, exact=each.weighting.name != "cost") for each in made]
    assert not table_five(wrong, HOW).trend_holds
    slow = [replace(each, downtime_s=30.0 - each.downtime_s) for each in made]
    assert not table_five(slow, HOW).trend_holds


def test_runs_that_were_alike_tell_how_far_they_lie_apart() -> None:
    again = [replace(each, downtime_s=2 * each.downtime_s) for each in made_outcomes()]
    reports = table_five([*made_outcomes(), *again], HOW).says
    assert "from 22.5 % (15.0 to 30.0 in 2 runs) to 2.5 % (1.7 to 3.3 in 2 runs)" in reports
    assert "(" not in table_five(made_outcomes(), HOW).says


def test_the_trend_does_not_hold_where_runs_overlap() -> None:
    lucky = [
        replace(each, downtime_s=0.9) if each.weighting.name == "baseline" else each
        for each in made_outcomes()
    ]
    reports = table_five([*made_outcomes(), *lucky], HOW)
    assert "from 8.2 % (1.5 to 15.0 in 2 runs) to 1.7 % (1.7 to 1.7 in 2 runs)" in reports.says
    assert not reports.trend_holds


def test_runs_of_an_earlier_study_are_joined_where_they_were_run_alike(tmp_path: Path) -> None:
    path = tmp_path / "first.json"
    path.write_text(json.dumps([table_five(made_outcomes(), HOW).as_json("replication")]))
    assert earlier_outcomes([path], HOW, 60.0) == made_outcomes()
    assert earlier_outcomes([path, path], HOW, 60.0) == 2 * made_outcomes()
    for other in (study_settings(120), study_settings(60, service_us=1.0)):
        with pytest.raises(
            ProblemError, match=r"first.json: was run otherwise: .*made trips, 60 s"
        ):
            earlier_outcomes([path], how_run(other), 120.0)


def test_runs_that_are_joined_get_the_trips_that_those_of_their_kind_have_not_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []
    said: list[str] = []

    @contextmanager
    def prepared(load: TaxiSettings) -> Iterator[None]:
        seeds.append(load.seed)
        yield None

    done = {each.weighting.name: each for each in made_outcomes()}
    monkeypatch.setattr(on_spark, "prepared", prepared)
    monkeypatch.setattr(on_spark, "machine_times", lambda: None)
    monkeypatch.setattr(on_spark, "run", lambda *_args, **_named: None)
    monkeypatch.setattr(on_spark, "_outcome", lambda _, weighting: done[weighting.name])
    spark: Any = None
    runs, settings = RUNS[:2], study_settings(60, seed=5)
    first = on_spark.outcomes(spark, settings, say=said.append, runs=runs, repeats=2)
    earlier = [each for each in first if each.weighting.name == "baseline"]
    assert seeds == [5, 5, 6, 6], "all have the same trips in one repeat"
    seeds.clear()
    list(on_spark.outcomes(spark, settings, say=said.append, runs=runs, repeats=2, earlier=earlier))
    assert seeds == [7, 5, 8, 6]


def test_a_run_that_the_host_disturbed_is_run_again_and_the_quieter_try_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def prepared(_load: TaxiSettings) -> Iterator[None]:
        yield None

    class Host:
        """Quiet whenever it is looked at."""

        def __init__(self, say: Callable[[str], None], *, tries: int) -> None:
            self.real = QuietHost(say, tries=tries, probe=lambda: 0.0)
            self.try_again = self.real.try_again

    kept = iter([0.0, 0.3, 0.2, 0.1, 0.4])
    monkeypatch.setattr(on_spark, "prepared", prepared)
    monkeypatch.setattr(on_spark, "QuietHost", Host)
    monkeypatch.setattr(on_spark, "stolen_share", lambda *_: next(kept))
    monkeypatch.setattr(on_spark, "run", lambda *_args, **_named: None)
    monkeypatch.setattr(on_spark, "_outcome", lambda *_: made_outcomes()[0])
    spark: Any = None
    said: list[str] = []
    runs = RUNS[:3]
    done = list(on_spark.outcomes(spark, study_settings(60), say=said.append, runs=runs))
    assert [each.stolen for each in done] == [0.0, 0.2, 0.1]
    assert "it again: the host kept 30% of the time" in said
    assert "In 2 of 3 runs the host kept more than 5%." in table_five(done, HOW).says


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("[]", "has no table V"),
        (json.dumps([{"figure": "004 table V, figure 6", "data": HOW}]), "'rows'"),
        (json.dumps([{"figure": "004 table V, figure 6", "data": HOW, "rows": [1]}]), "row"),
        (
            json.dumps([{"figure": "004 table V, figure 6", "data": HOW, "rows": [{}]}]),
            "'weighting'",
        ),
    ],
)
def test_a_file_that_is_no_table_is_reported(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "first.json"
    path.write_text(text)
    with pytest.raises(ProblemError, match=f"first.json: .*{why}"):
        earlier_outcomes([path], HOW, 60.0)


def test_what_was_run_names_its_files_and_their_part() -> None:
    part = TimeSlice("2013-01-01 00:10:00", "2013-01-01 00:20:00")
    report = how_run(study_settings(60, trips=Path("some/trips.csv"), part=part))
    assert "trips.csv since 2013-01-01 00:10:00 until 2013-01-01 00:20:00" in report


def test_the_runs_are_drawn(tmp_path: Path) -> None:
    draw_runs(made_outcomes(), tmp_path / "runs.svg")
    assert "<svg" in (tmp_path / "runs.svg").read_text()


def test_of_a_study_that_is_ended_the_runs_it_had_are_written_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures, picture = tmp_path / "runs.json", tmp_path / "runs.svg"
    meanwhile: list[int] = []

    def outcomes(*_args: object, say: Callable[[str], None], **_named: object) -> Iterator[Outcome]:
        say("the first run")
        assert not figures.exists(), "there is nothing yet"
        yield made_outcomes()[0]
        say("the second run")
        meanwhile.append(len(json.loads(figures.read_text())[0]["rows"]))
        raise KeyboardInterrupt

    @contextmanager
    def session(_cluster: object) -> Iterator[None]:
        yield None

    monkeypatch.setattr(on_spark, "outcomes", outcomes)
    monkeypatch.setattr(job_session, "job_session", session)
    with pytest.raises(KeyboardInterrupt):
        replication(on_spark=True, json_file=figures, picture=picture)
    assert meanwhile == [1], "a machine may end too"
    table, why = json.loads(figures.read_text())
    assert len(table["rows"]) == 1
    assert why["error"]
    assert "baseline: " in picture.read_text()
