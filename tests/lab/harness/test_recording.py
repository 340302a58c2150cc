from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from elastream.model.errors import ProblemError
from elastream_lab.harness.made_posts import SteadyPosts, day_rate, make_posts, make_steady_posts
from elastream_lab.harness.recorded_file import RecordedFile, record_file
from elastream_lab.harness.recording import Recording, write_recording

ROWS = [
    ("2020-03-01T12:00:04Z", "third"),
    ("2020-03-01T12:00:00Z", "first one"),
    ("2020-03-01T12:00:01Z", "second, of two"),
]


def texts(recording: Recording, start: int = 0, end: int | None = None) -> list[str]:
    end = recording.rows if end is None else end
    return [t for part in recording.slices(start, end) for t in part.column("text").to_pylist()]


@pytest.fixture(scope="module")
def long_recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path = tmp_path_factory.mktemp("recording") / "posts.arrow"
    return write_recording(path, np.arange(10_000) // 7, [str(row) for row in range(10_000)])


@given(st.integers(0, 10_000), st.integers(0, 10_000))
@settings(max_examples=100)
def test_a_slice_holds_exactly_its_rows(long_recording: Recording, start: int, end: int) -> None:
    assert texts(long_recording, start, end) == [str(row) for row in range(start, end)]


@given(st.floats(-10, 2000))
@settings(max_examples=100)
def test_a_row_is_there_from_the_moment_it_is_due(
    long_recording: Recording, elapsed_ms: float
) -> None:
    due = sum(row // 7 <= elapsed_ms for row in range(10_000))
    assert long_recording.rows_due(elapsed_ms) == due


def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    made = [make_posts(np.arange(300), tmp_path / name, seed=5) for name in ("a", "b")]
    files = [recording.path.read_bytes() for recording in made]
    other = make_posts(np.arange(300), tmp_path / "c", seed=6)
    assert files[0] == files[1] != other.path.read_bytes()


def test_the_rate_of_a_day_is_lowest_at_its_ends() -> None:
    rate = day_rate(3, np.random.default_rng(1))
    assert rate[len(rate) // 2] > 2 * max(rate[0], rate[-1])


def test_the_words_of_made_posts_follow_zipf(tmp_path: Path) -> None:
    recording = make_posts(np.arange(10_000), tmp_path / "posts")
    counts = [count for _, count in Counter(" ".join(texts(recording)).split()).most_common(10)]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.3)


def test_opening_rows_of_a_steady_stream_are_there_at_once(tmp_path: Path) -> None:
    posts = SteadyPosts(replay_s=2, posts_a_second=10, opening=("a", "b"), lead_rows=3)
    recording = make_steady_posts(posts, tmp_path / "steady")
    assert texts(recording, 0, 2) == ["a", "b"]
    assert recording.due_ms.tolist() == [0] * 5 + [100 * row for row in range(20)]


@pytest.mark.parametrize(("recurring_s", "posts"), [(0.4, [0, 2, 4, 6]), (0.1, range(8))])
def test_words_come_back_in_turn_with_at_most_one_a_post(
    tmp_path: Path, recurring_s: float, posts: Sequence[int]
) -> None:
    steady = SteadyPosts(
        0.8, 10, ("a",), lead_rows=2, recurring=("x_1", "x_2"), recurring_s=recurring_s
    )
    found = texts(make_steady_posts(steady, tmp_path / "steady"))
    assert not any("x_" in text for text in found[:3])
    last = [text.split()[-1] for text in found[3:]]
    assert [post for post, word in enumerate(last) if word.startswith("x_")] == list(posts)
    turns = [word for word in last if word.startswith("x_")]
    assert turns == ["x_1", "x_2"] * (len(turns) // 2)


def write_csv(path: Path) -> Path:
    lines = ["when,what", *(f'{when},"{what}"' for when, what in ROWS)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_json(path: Path) -> Path:
    lines = [json.dumps({"when": when, "what": what, "more": [1]}) for when, what in ROWS]
    text = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_parquet(path: Path) -> Path:
    when, what = zip(*ROWS, strict=True)
    parquet.write_table(pa.table({"when": list(when), "what": list(what)}), path)
    return path


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv", write_csv),
        ("a.jsonl", write_json),
        ("a.json.gz", write_json),
        ("a.parquet", write_parquet),
    ],
)
def test_every_format_gives_the_same_recording(tmp_path: Path, name: str, write: Any) -> None:
    source = RecordedFile(write(tmp_path / name), "when", "what", replay_s=8)
    recording = record_file(source, tmp_path / "recording")
    assert texts(recording) == ["first one", "second, of two", "third"]
    assert recording.due_ms.tolist() == [0, 2000, 8000]


@pytest.mark.parametrize("unit", [1, 1000, 1_000_000, 1_000_000_000])
def test_numbers_since_1970_are_times_in_any_unit(tmp_path: Path, unit: int) -> None:
    file = tmp_path / "a.parquet"
    when = [(1_600_000_000 + second) * unit for second in (0, 3)]
    parquet.write_table(pa.table({"when": when, "what": ["a", "b"]}), file)
    recording = record_file(RecordedFile(file, "when", "what", replay_s=1), tmp_path / "recording")
    assert recording.due_ms.tolist() == [0, 1000]


def test_a_file_of_one_instant_is_due_at_once(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("when,what\n2020-01-01T00:00:00Z,a\n2020-01-01T00:00:00Z,\n")
    recording = record_file(RecordedFile(file, "when", "what"), tmp_path / "recording")
    assert (texts(recording), recording.due_ms.tolist()) == (["a", ""], [0, 0])


@pytest.mark.parametrize(
    ("content", "name", "columns", "line"),
    [
        ("", "a.csv", ("when", "what"), "input: {file} is empty"),
        ("when,what\n", "a.csv", ("when", "what"), "input: {file} has no rows"),
        (
            "when,what\n2020-01-01,a\n",
            "a.csv",
            ("wen", "what"),
            "time: {file} has no column 'wen'; it has when, what",
        ),
        (
            "when,what\n2020-01-01,a\n",
            "a.csv",
            ("when", "wat"),
            "text: {file} has no column 'wat'; it has when, what",
        ),
        (
            "when,what\n2020-01-01,a\nsoon,b\n",
            "a.csv",
            ("when", "what"),
            "time: row 2 of column 'when' is 'soon', not a time as in 2020-03-01T12:00:00Z",
        ),
        (
            "when,what\n2020-01-01,a\n,b\n",
            "a.csv",
            ("when", "what"),
            "time: row 2 has no time in column 'when'",
        ),
        ('{"when": true, "what": "a"}', "a.json", ("when", "what"), "time: column 'when' holds"),
        ('{"when": 1, "what": 2}', "a.json", ("when", "what"), "text: column 'what' holds int64"),
        ('{"when": 1e300, "what": "a"}', "a.json", ("when", "what"), "time: column 'when' holds"),
        ("{not json", "a.json", ("when", "what"), "input: {file} is not JSON lines: "),
        ("not parquet", "a.parquet", ("when", "what"), "input: {file} is not Parquet: "),
        ("text", "a.doc", ("when", "what"), "input: {file} has no known format"),
        ("text", "a.csv.gz", ("when", "what"), "input: {file} cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_replayed_is_reported_in_one_line(
    tmp_path: Path, content: str, name: str, columns: tuple[str, str], line: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(ProblemError) as raised:
        record_file(RecordedFile(file, *columns), tmp_path / "recording")
    assert str(raised.value).startswith(line.format(file=file))
    assert len(str(raised.value).splitlines()) == 1


def test_a_missing_file_and_a_folder_are_distinguished(tmp_path: Path) -> None:
    for path, line in (
        (tmp_path / "none.csv", f"input: {tmp_path / 'none.csv'} cannot be read: No such file"),
        (tmp_path, f"input: {tmp_path} is a folder, not a file"),
    ):
        with pytest.raises(ProblemError) as raised:
            record_file(RecordedFile(path, "when", "what"), tmp_path / "recording")
        assert str(raised.value).startswith(line)
