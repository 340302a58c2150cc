from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from elastream.model.errors import ProblemError
from elastream_lab.benchmarks.elasticity.load import Load, compressed, made_load, read_load

START = datetime(2020, 3, 1, tzinfo=UTC)
Written = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write lines to a file of that name, and return its path."""

    def write(*lines: str, name: str = "load.csv") -> Path:
        path, text = tmp_path / name, "\n".join(lines) + "\n"
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        return path

    return write


def hourly(counts: Sequence[int], form: str = "%Y-%m-%d %H:%M:%S") -> list[str]:
    """Lines of a count every hour from ``START`` on."""
    times = (START + timedelta(hours=hour) for hour in range(len(counts)))
    return [f"{time:{form}},{count}" for time, count in zip(times, counts, strict=True)]


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("timestamp,value", "%Y-%m-%d %H:%M:%S"),
        ("hour_utc,tweets", "%Y-%m-%d %H:%M:%S+00:00"),
        ("period,count", "%Y-%m-%dT%H:%M:%SZ"),
        ("when,visits", "%Y-%m-%dT%H:%M"),
        ("ts,n", "%s"),
    ],
)
@pytest.mark.parametrize("name", ["load.csv", "load.csv.gz"])
def test_times_and_counts_are_known_from_what_columns_hold(
    written: Written, header: str, form: str, name: str
) -> None:
    path = written(header, *hourly(range(48), form), name=name)
    load = read_load(path, "2020-03-01T06:00", 4)
    assert load.counts.tolist() == [6, 7, 8, 9]
    assert not load.made
    assert load.description == f"{name}: 4 h from 2020-03-01 06:00, a count every 3600 s"


def test_the_columns_may_come_in_any_order(written: Written) -> None:
    rows = (",".join(reversed(line.split(","))) for line in hourly(range(24)))
    path = written("count,time", *rows)
    assert read_load(path, hours=24).counts.tolist() == list(range(24))


def test_left_out_the_span_is_the_day_with_the_busiest_step(written: Written) -> None:
    counts = [5] * 96
    counts[30] = 99
    load = read_load(written("time,count", *hourly(counts)))
    assert load.counts.tolist() == counts[24:48]
    assert "24 h from 2020-03-02 00:00" in load.description


def test_a_step_that_is_missing_or_untold_had_no_arrivals(written: Written) -> None:
    lines = hourly([1, 2, 3, 4, 5, 6])
    del lines[2]
    lines[3] = lines[3].split(",")[0] + ","
    load = read_load(written("time,count", *lines), "2020-03-01", 6)
    assert load.counts.tolist() == [1, 2, 0, 4, 0, 6]


def test_rows_of_one_time_are_added_and_need_no_order(written: Written) -> None:
    lines = hourly([1, 2, 3, 4])
    load = read_load(written("time,count", *lines[::-1], lines[1]), "2020-03-01", 4)
    assert load.counts.tolist() == [1, 4, 3, 4]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["time,count"], "has no rows"),
        (["a,b", "1,2"], "has no column of times; it has a, b"),
        (["time,note", "2020-03-01,x"], "has 0 columns of numbers in addition to 'time' (none)"),
        (
            ["time,a,b", "2020-03-01,1,2"],
            "has 2 columns of numbers in addition to 'time' (a, b), where",
        ),
        (["when,count", "soon,1", "later,2"], "row 1 of column 'when' is 'soon', not a time"),
        (["time,count", "2020-03-01,1", "2020-03-02,-3"], "row 2 of column 'count' is -3, which"),
        (["time,count", "2020-03-01,1"], "has a single time, where a load has many"),
    ],
)
def test_a_file_that_is_no_load_is_reported_in_one_line(
    written: Written, lines: list[str], why: str
) -> None:
    with pytest.raises(ProblemError) as raised:
        read_load(written(*lines))
    assert raised.value.field == "load"
    assert why in raised.value.why
    assert "\n" not in raised.value.why


@pytest.mark.parametrize("name", ["missing.csv", "load.doc"])
def test_a_file_that_cannot_be_read_is_a_wrong_load(tmp_path: Path, name: str) -> None:
    (tmp_path / "load.doc").write_text("words")
    with pytest.raises(ProblemError, match=r"^load: .*" + name):
        read_load(tmp_path / name)


@pytest.mark.parametrize(
    ("begin", "hours", "line"),
    [
        ("noon", 4.0, "begin: 'noon' is not a time as in 2020-03-01T12:00:00"),
        ("2019-01-01", 4.0, "begin: nothing arrived in the 4 hours; "),
        (None, 1.0, "hours: 1 are 1 of the steps of 3600 s that "),
        (None, 0.0, "hours: 0 is not positive"),
    ],
)
def test_a_span_that_is_none_is_reported(
    written: Written, begin: str | None, hours: float, line: str
) -> None:
    path = written("time,count", *hourly(range(48)))
    with pytest.raises(ProblemError) as raised:
        read_load(path, begin, hours)
    assert str(raised.value).startswith(line)


def busiest(due_ms: NDArray[np.int64], window_s: float) -> float:
    """The most rows a second in any window, by counting."""
    ends = np.searchsorted(due_ms, due_ms + window_s * 1000, side="left")
    return float((ends - np.arange(len(due_ms))).max()) / window_s


@settings(max_examples=min(200, settings().max_examples))
@given(
    counts=st.lists(st.integers(0, 1000), min_size=2, max_size=60).filter(any),
    seconds=st.floats(10, 900),
    peak=st.floats(50, 2000),
)
def test_a_compressed_load_keeps_its_shape_its_length_and_the_peak_asked_for(
    counts: list[int], seconds: float, peak: float
) -> None:
    load = Load("a load", True, np.array(counts, dtype=np.float64))
    due_ms = compressed(load, seconds, peak)
    assert (np.diff(due_ms) >= 0).all()
    assert due_ms[0] >= 0
    assert due_ms[-1] <= seconds * 1000
    # Rows are whole and so are milliseconds: one more or less at either end of a window.
    assert busiest(due_ms, 5.0) == pytest.approx(peak, abs=0.02 * peak + 1)
    edges = np.linspace(0, seconds * 1000, len(counts) + 1)
    shares = np.histogram(due_ms, bins=edges)[0] / len(due_ms)
    expected = np.array(counts) / sum(counts)
    assert np.abs(shares - expected).max() <= 0.02 + 3 / len(due_ms)


def test_the_made_day_is_the_same_each_time_and_says_that_it_is_made() -> None:
    one, same, other = made_load(1), made_load(1), made_load(2)
    assert one.made
    assert "made" in one.description
    assert one.counts.tolist() == same.counts.tolist() != other.counts.tolist()
    assert one.counts.max() > 2 * one.counts.min() > 0
