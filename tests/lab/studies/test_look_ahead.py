from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import cos, pi
from pathlib import Path

import numpy as np
import pytest

from elastream.cli.main import main
from elastream.model.errors import ProblemError
from elastream_lab.studies.look_ahead import backtest
from elastream_lab.studies.look_ahead.backtest import LOOPS, LookAheadStudy, outcome
from elastream_lab.studies.look_ahead.series import Series, read_series

HOUR_S = 3600.0


def hours(days: int, rate: Callable[[float], float]) -> Series:
    """A rate by the day, in the hours of this many of them."""
    seconds = np.arange(0.5, 24 * days) * HOUR_S
    return Series("made", seconds, np.array([rate(s / 86_400) for s in seconds]), HOUR_S)


def wave(day: float) -> float:
    return 0.3 - 0.25 * cos(2 * pi * day)


def mornings(day: float) -> float:
    """Ten times as much from eight to twelve."""
    return 0.5 if 8 <= 24 * (day % 1) < 12 else 0.05


def csv(path: Path, days: int, rate: Callable[[float], float] = wave) -> Path:
    begin = datetime(2020, 3, 1, tzinfo=UTC)
    lines = ["time,count"]
    for hour in range(24 * days):
        moment = (begin + timedelta(hours=hour)).isoformat()
        lines.append(f"{moment},{round(3600 * rate(hour / 24))}")
    text = "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


# A load with a season held out


def test_counts_become_rates_in_the_middle_of_their_intervals(tmp_path: Path) -> None:
    load = read_series(csv(tmp_path / "load.csv.gz", 2))
    assert (load.name, load.interval_s, len(load.rates)) == ("load", HOUR_S, 48)
    assert load.rates[0] == pytest.approx(0.05, abs=0.001)
    assert load.seconds[0] == datetime(2020, 3, 1, 0, 30, tzinfo=UTC).timestamp()


def test_the_last_days_are_held_out_and_time_begins_with_them() -> None:
    load = hours(10, wave).held_out(2, 1000.0)
    rate = load.rows_per_s()
    assert load.learnt_days == 7
    assert rate(12 * HOUR_S) == pytest.approx(1000, rel=0.02)
    assert rate(12 * HOUR_S) == pytest.approx(rate(36 * HOUR_S))
    past = list(load.past(0.001))
    assert (past[0][0], past[-1][0]) == (-7 * 86_400_000, -60_000)
    assert max(cores for _, cores in past) == pytest.approx(1.0, rel=0.02)


def test_what_is_learnt_from_never_sees_what_is_held_out() -> None:
    calm = hours(10, lambda day: 1.0 if day < 8 else 50.0).held_out(2, 1000.0)
    assert max(cores for _, cores in calm.past(0.001)) == 1.0


def test_a_load_that_is_too_short_is_refused() -> None:
    with pytest.raises(ProblemError, match="days: 4 leaves less than 7 days to learn from: made"):
        hours(10, wave).held_out(4, 1.0)
    with pytest.raises(ProblemError, match="nothing before its last days"):
        hours(10, lambda day: float(day > 8)).held_out(2, 1.0)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("time\n2020-01-01\n", "one column"),
        ("time,count\n2020-01-01,many\n", "holds no counts"),
        ("time,count\n2020-01-01,-1\n2020-01-02,2\n", "holds no counts"),
        ("time,count\n2020-01-01,1\n", "no times that follow"),
    ],
)
def test_a_file_that_is_no_load_is_refused(tmp_path: Path, text: str, wrong: str) -> None:
    (tmp_path / "load.csv").write_text(text)
    with pytest.raises(ProblemError, match=wrong):
        read_series(tmp_path / "load.csv")


# Three loops


def test_who_looks_ahead_is_ready_for_a_morning_like_those_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backtest, "_TRIGGER_S", 60.0)
    study = LookAheadStudy(days=1, look_ahead_s=900.0, pool_s=300.0)
    load = hours(9, mornings).held_out(1, 4200.0)
    found = {loop: outcome(study, load, loop) for loop in LOOPS}
    assert found["reactive"].overload_s > 0
    assert found["ahead"].overload_s < found["reactive"].overload_s / 2
    assert found["ahead"].executor_s < 1.1 * found["reactive"].executor_s
    assert found["oracle"].overload_s <= found["ahead"].overload_s
    assert found["ahead"].expected_error_percent is not None
    assert found["reactive"].expected_error_percent is None


# The command


def test_one_command_reports_every_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtest, "_TRIGGER_S", 300.0)
    first, second = csv(tmp_path / "calm.csv", 9), csv(tmp_path / "week.csv.gz", 16, mornings)
    report, picture = tmp_path / "ahead.json", tmp_path / "ahead.png"
    options = ["--input", str(first), "--input", str(second), "--days", "1"]
    options += ["--json", str(report), "--picture", str(picture)]
    assert main(["study", "look-ahead", *options]) == 0
    figures = json.loads(report.read_text())
    assert [figure["figure"] for figure in figures] == ["calm", "week"]
    assert {figure["study"] for figure in figures} == {"look-ahead"}
    assert [row["loop"] for row in figures[0]["rows"]] == list(LOOPS)
    assert picture.read_bytes().startswith(b"\x89PNG")
    reactive, ahead, _ = figures[0]["rows"]
    assert ahead["executor_s"] == reactive["executor_s"]  # executors bear so slow a change
    assert "the last 1 days, learnt from 7 before" in " ".join(capsys.readouterr().out.split())
