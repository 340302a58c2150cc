from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from elastream.cli.main import main
from elastream.model.errors import ProblemError
from elastream_lab.applications.readings.source import Readings
from elastream_lab.studies.handover.excerpt import excerpt
from elastream_lab.studies.handover.figures import (
    choice_table,
    cost_table,
    response_figure,
    response_table,
)
from elastream_lab.studies.handover.outputs import QUERIES, Output, WrittenOutput, responses, spread
from elastream_lab.studies.handover.run import QueryRun
from elastream_lab.studies.handover.settings import HandoverSettings
from elastream_lab.studies.handover.verdict import Verdict, verdict

READINGS = Readings(0, rows=120, gap_ms=40, places=3)
RANGE_MS = 400
SETTINGS = HandoverSettings(range_s=0.4, gap_ms=40)


def made_run(name: str, slower_ms: float = 0.0) -> QueryRun:
    """A run whose results all take 300 or 500 ms, and more with a handover if requested."""
    query = QUERIES[name]
    due = query.due(READINGS, RANGE_MS)
    alone = [
        WrittenOutput(output, at + (300 if i % 2 else 500))
        for i, (output, at) in enumerate(due.items())
    ]
    handed = [replace(each, at_ms=each.at_ms + slower_ms) for each in alone]
    first = sorted(handed, key=lambda each: each.output)[len(handed) // 2].output[0]
    return QueryRun(
        query,
        due,
        tuple(each for each in handed if each.output[0] < first),  # type: ignore[operator]
        tuple(each for each in handed if each.output[0] >= first),  # type: ignore[operator]
        tuple(alone),
        handover_ms=2400,
        decided_in_ms=120,
        joined_in_ms=900,
        stopped_in_ms=1400,
        rows_twice=17,
    )


def test_a_pair_is_due_with_its_later_reading_and_counted_from_its_earlier() -> None:
    query, (s, t) = QUERIES["q1"], [replace(READINGS, stream=i).all() for i in (0, 1)]
    due = query.due(READINGS, RANGE_MS)
    for (coordinate, left, right, *_), at in due.items():
        times = [s[int(left)][1], t[int(right)][1]]
        assert [coordinate, at] == sorted(times)
        assert at - int(coordinate) < RANGE_MS
    near = [1 for a in s for b in t if a[2] == b[2] and abs(a[1] - b[1]) < RANGE_MS]
    assert len(due) == len(near)


def test_a_window_of_pairs_is_due_with_its_last_pair_in_the_order_of_their_later_readings() -> None:
    ordered = sorted(
        (at, int(left), int(right), int(measure))
        for (_, left, right, _, measure, _), at in QUERIES["q1"].due(READINGS, RANGE_MS).items()
    )
    windows = QUERIES["q3"].due(READINGS, RANGE_MS)
    assert list(windows.items()) == [
        ((ordered[i][0], i, sum(pair[3] for pair in ordered[i : i + 5])), ordered[i + 4][0])
        for i in range(len(ordered) - 4)
    ]


def test_results_are_read_with_times_relative_to_the_start(tmp_path: Path) -> None:
    line = {"coordinate": 1_050, "number": 3, "total": 9}
    (tmp_path / "00000000.jsonl").write_text(json.dumps(line) + "\n")
    (found,) = QUERIES["q2"].written(tmp_path, 1_000)
    assert found.output == (50, 3, 9)


def test_response_times_run_from_the_last_reading_to_the_writing() -> None:
    due: dict[Output, int] = {(1,): 100, (2,): 200, (3,): 900}
    found = responses(
        [WrittenOutput((1,), 150.0), WrittenOutput((2,), 350.0), WrittenOutput((3,), 901.0)], due
    )
    assert found == [(100, 50.0), (200, 150.0), (900, 1.0)]
    near = spread(found, 100, 900)
    assert near is not None
    assert (near.mean_ms, near.deviation_ms, near.worst_ms, near.outputs) == (100, 50, 150, 2)
    assert spread(found, 300, 400) is None


@pytest.mark.parametrize("name", QUERIES)
def test_a_handover_that_does_not_show_holds_the_trend(name: str) -> None:
    figure = response_figure([made_run(name)], SETTINGS)
    assert figure.trend_holds
    assert figure.figure == f"002 fig. {QUERIES[name].figure}"
    assert "the same output, and +0 ms with a handover (interval 0" in figure.says
    assert "it does not show" in figure.says
    assert {row["run"] for row in figure.rows} == {"with a handover", "without"}


def test_a_handover_that_shows_does_not() -> None:
    assert response_figure([made_run("q2", slower_ms=90)], SETTINGS).trend_holds
    assert not response_figure([made_run("q2", slower_ms=110)], SETTINGS).trend_holds


@pytest.mark.parametrize(
    ("slower_ms", "seen"),
    [
        ((10, 20, 30), "does not show"),
        ((-30, -20, -10), "does not show"),
        ((300, 310, 320), "shows"),
        ((0, 20, 180), "is undecided"),
        ((90,), "does not show"),
    ],
)
def test_the_verdict_is_by_the_interval_over_the_repeats(
    slower_ms: tuple[float, ...], seen: str
) -> None:
    runs = [made_run("q2", slower_ms=each) for each in slower_ms]
    found = verdict(runs)
    assert found is not None
    assert found.seen == seen
    assert response_figure(runs, SETTINGS).trend_holds == (seen == "does not show")


def test_the_interval_is_students() -> None:
    found = verdict([made_run("q1", slower_ms=each) for each in (10.0, 20.0, 30.0)])
    assert found is not None
    assert found.difference_ms == pytest.approx(20)
    assert found.half_ms == pytest.approx(4.3027 * 10 / 3**0.5, rel=1e-4)
    assert found.bound_ms == pytest.approx(100, rel=0.01)
    assert Verdict(20, 80, 100).is_quiet
    assert not Verdict(20, 81, 100).is_quiet


@pytest.mark.parametrize("name", QUERIES)
def test_an_excerpt_shows_both_outputs_around_the_boundary(name: str) -> None:
    run = made_run(name)
    figure = excerpt(run)
    assert figure.trend_holds
    assert [row["by"] for row in figure.rows] == ["origin"] * 3 + ["target"] * 3
    assert all(row["with_a_handover"] == row["without"] for row in figure.rows)
    wrong = replace(run, by_target=run.by_target[1:])
    assert not excerpt(wrong).trend_holds


@pytest.mark.parametrize("change", ["lost", "doubled", "other"])
def test_an_output_that_differs_is_said(change: str) -> None:
    run = made_run("q2")
    by_target = {
        "lost": run.by_target[1:],
        "doubled": (*run.by_target, run.by_origin[0]),
        "other": (*run.by_target, WrittenOutput((0, 0, -1), 0.0)),
    }[change]
    wrong = replace(run, by_target=by_target)
    assert not wrong.is_exact
    assert not response_figure([run, wrong], SETTINGS).trend_holds
    assert not cost_table([run, wrong], SETTINGS).trend_holds


def test_the_table_has_a_row_for_each_query() -> None:
    table = cost_table([made_run(name) for name in QUERIES], SETTINGS)
    fields = table.as_json("handover")
    assert json.loads(json.dumps(fields)) == fields
    assert [row["query"] for row in table.rows] == ["q1", "q2", "q3"]
    assert all(row["exact"] and row["rows_twice"] == 17 for row in table.rows)
    assert "17 in q1" in table.says
    assert [row["expected_rows_twice"] is None for row in table.rows] == [False, True, False]


def test_the_larger_the_state_the_longer_the_windows_that_are_handed_over_sooner() -> None:
    table = choice_table(replace(SETTINGS, range_s=60.0))
    assert table.trend_holds
    for row in table.rows:
        sooner = row["handing_over_s"] < row["migrating_s"]
        assert sooner == (row["break_even_range_s"] > 60)
    assert "sooner than moving 2 of 4 states" in table.says


def test_the_response_times_of_both_runs_stand_side_by_side() -> None:
    runs = [[made_run("q1")] * 2, [made_run("q2", slower_ms=110)] * 2]
    each, table = response_table(runs, SETTINGS)
    assert [(row["query"], row["repeat"]) for row in each.rows] == [
        ("q1", 1),
        ("q1", 2),
        ("q2", 1),
        ("q2", 2),
    ]
    assert each.rows[3]["mean_ms"] - each.rows[3]["alone_mean_ms"] == pytest.approx(110)
    assert [(row["query"], row["handover"]) for row in table.rows] == [
        ("q1", "does not show"),
        ("q2", "shows"),
    ]
    assert not table.trend_holds
    assert "within the deviation for q1; q2: shows" in table.says


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"queries": ("q4",)}, "queries: there is no 'q4'; there are q1, q2, q3"),
        ({"queries": ()}, "queries: is empty"),
        ({"range_s": 0.0}, "range_s: 0 is below a millisecond"),
        ({"range_s": -1.0}, "range_s: -1.0 is negative"),
        ({"join_at_s": 1.0}, "join_at_s: 1 is below 2"),
        ({"gap_ms": 0}, "gap_ms: 0 is too small"),
        ({"seed": -1}, "seed: -1 is too small"),
        ({"trigger_s": 0.0}, "trigger_s: 0 is not positive; give more than zero"),
        ({"repeats": 0}, "repeats: 0 is too small"),
        ({"masters": ("a", "b", "c")}, "masters: are 3; give one, or two with a comma"),
        ({"masters": ("",)}, "masters: are 1"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, object], line: str) -> None:
    with pytest.raises(ProblemError) as caught:
        HandoverSettings(**changes)  # type: ignore[arg-type]
    assert str(caught.value).startswith(line)


def test_a_wrong_option_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none" / "x.json"
    assert main(["study", "handover", "--queries", "q9", "--json", str(missing)]) == 2
    assert main(["study", "handover", "--json", str(missing)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_handed_over_between_two_applications(tmp_path: Path, name: str) -> None:
    file, picture = tmp_path / "handover.json", tmp_path / "handover.png"
    options = ["--queries", name, "--range-s", "2", "--join-at-s", "4", "--repeats", "2"]
    files = ["--json", str(file), "--picture", str(picture)]
    assert main(["study", "handover", *options, *files]) == 0
    figures = json.loads(file.read_text())
    _, outputs, times, _, table, _ = figures
    assert len(times["rows"]) == len(table["rows"]) == 2
    for row in table["rows"]:
        assert row["exact"]
        assert row["by_origin"] > 0
        assert row["by_target"] > 0
    assert outputs["trend_holds"]
    assert {each["study"] for each in figures} == {"handover"}
    assert picture.stat().st_size > 0
