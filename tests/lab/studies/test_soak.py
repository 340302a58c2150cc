"""A soak tells what grows from what does not, and finds nothing that grows in the loop."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from elastream.cli.main import main
from elastream.model.errors import ProblemError
from elastream_lab.studies.soak.figures import figure_of
from elastream_lab.studies.soak.flatness import trend_of
from elastream_lab.studies.soak.measures import Sample

AT = [float(hour) for hour in range(60)]


def noisy(slope: float, noise: float = 5.0) -> list[float]:
    dice = random.Random(1)
    return [100 + slope * at + dice.uniform(-noise, noise) for at in AT]


def test_noise_alone_is_flat_and_a_leak_is_not() -> None:
    assert trend_of(AT, noisy(0.0)).flat
    assert trend_of(AT, noisy(-1.0)).flat
    assert not trend_of(AT, noisy(1.0)).flat


def test_what_grows_as_it_begins_is_flat() -> None:
    assert trend_of(AT, [min(20.0, at) for at in AT]).flat


def test_outliers_bend_nothing() -> None:
    values = [100.0] * len(AT)
    values[-3] = 900.0
    trend = trend_of(AT, values)
    assert trend.flat
    assert trend.growth == 0


def test_a_count_that_grows_by_one_an_hour_is_not_flat() -> None:
    trend = trend_of(AT, AT)
    assert (trend.first, trend.middle, trend.last, trend.growth) == (0, 30, 59, 29)
    assert not trend.flat


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ProblemError, match="samples: there are 3; 12 are needed"):
        trend_of(AT[:3], AT[:3])


def test_wrong_answers_are_no_verdict_of_flatness() -> None:
    samples = [Sample(at, 0, {"threads": 3}) for at in AT]
    assert figure_of("live", samples, exact="").trend_holds
    wrong = figure_of("live", samples, exact="a window has 3 rows")
    assert not wrong.trend_holds
    assert "a window has 3 rows" in wrong.says


@pytest.mark.slow
def test_days_on_the_simulated_cluster_are_flat(tmp_path: Path) -> None:
    out, picture = tmp_path / "soak.json", tmp_path / "soak.png"
    command = ["study", "soak", "--days", "4", "--live-minutes", "0", "--json", str(out)]
    assert main([*command, "--picture", str(picture)]) == 0
    (fields,) = json.loads(out.read_text())
    assert fields["trend_holds"]
    assert len(fields["samples"]) == 24
    assert fields["samples"][-1]["changes"] > 10
    assert picture.stat().st_size > 0


@pytest.mark.slow
@pytest.mark.spark
def test_minutes_on_live_executors_are_exact(tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    main(["study", "soak", "--days", "0", "--live-minutes", "4", "--json", str(out)])
    (fields,) = json.loads(out.read_text())
    assert "The answers are exact." in fields["says"]
