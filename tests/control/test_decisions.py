from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.control.decisions import Decision, DecisionLog, Kind, line_of, read_decisions
from elastream.model.errors import ProblemError

HOLD = Decision(1000, 0, "hold", "within the band", 2, 0.5, {"busiest": 0.75, "backlog": 3})
DONE = Decision(2000, 1, "done", "all moved", 4)

decisions = st.builds(
    Decision,
    at_ms=st.none() | st.integers(0, 10**15),
    batch=st.none() | st.integers(0, 10**9),
    kind=st.sampled_from(get_args(Kind)),
    reason=st.text(),
    executors=st.integers(0, 1000),
    utilisation=st.none() | st.floats(0, 10),
    figures=st.dictionaries(st.text(), st.integers(0, 10**15) | st.floats(0, 1e50), max_size=4),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


def written(path: Path, *said: Decision) -> Path:
    log = DecisionLog(path)
    for decision in said:
        log.append(decision)
    return path


@given(said=st.lists(decisions, min_size=1, max_size=5))
@settings(max_examples=100)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, said: list[Decision]
) -> None:
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    assert list(read_decisions(written(path, *said))) == said


def test_a_line_is_one_object_that_begins_with_its_version() -> None:
    line = line_of(HOLD)
    assert "\n" not in line
    assert line.startswith('{"v": 1, ')
    assert json.loads(line)["figures"] == {"busiest": 0.75, "backlog": 3}


@pytest.mark.parametrize("left", [1, 5, 40])
def test_a_torn_last_line_is_passed_over(path: Path, left: int) -> None:
    written(path, HOLD)
    with path.open("a") as file:
        file.write(line_of(DONE)[:left])
    assert list(read_decisions(path)) == [HOLD]


@pytest.mark.parametrize("torn_first", [False, True])
def test_a_writer_cuts_a_torn_line_off_and_goes_on(path: Path, torn_first: bool) -> None:
    if not torn_first:
        written(path, HOLD)
    with path.open("a") as file:
        file.write(line_of(DONE)[:17])
    written(path, DONE)
    assert list(read_decisions(path)) == ([DONE] if torn_first else [HOLD, DONE])


def test_a_file_that_is_no_log_is_not_written_to(path: Path) -> None:
    path.write_text("id,name\n1,a")
    with pytest.raises(ProblemError, match="not a decision log"):
        DecisionLog(path)
    assert path.read_text() == "id,name\n1,a"


def test_a_log_makes_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "decisions.jsonl"
    assert list(read_decisions(written(path, HOLD))) == [HOLD]


def test_a_log_that_cannot_be_written_says_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="cannot be written"):
        DecisionLog(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("id,name\n1,a\n", "line 1: is not a decision"),
        ("no line end", "line 1: is not a decision"),
        ("[1]\n", "line 1: is not a decision"),
        ("{}\n", "line 1: is not a decision"),
        ('{"v": 2}\n', "version 2"),
        ('{"v": 1, "kind": "hold"}\n', "missing"),
        (line_of(HOLD).replace("hold", "dance") + "\n", "kind: 'dance'"),
        (line_of(HOLD).replace("0.75", "-1") + "\n", "figures.busiest: -1"),
        (line_of(HOLD).replace("1000", '"now"') + "\n", "at_ms"),
        (line_of(HOLD) + "\ngarbage\n", "line 2: is not a decision"),
        ("[" * 100_000 + "\n", "line 1: is not a decision"),
    ],
)
def test_what_is_not_a_log_is_refused_in_one_line(path: Path, text: str, why: str) -> None:
    path.write_text(text)
    with pytest.raises(ProblemError) as caught:
        list(read_decisions(path))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00" * 1000 + b"\n")
    with pytest.raises(ProblemError, match="line 1: is not a decision"):
        list(read_decisions(path))


def test_a_line_without_an_end_is_not_read_whole(path: Path) -> None:
    path.write_bytes(b'{"v": 1, ' + b" " * (3 << 20))
    with pytest.raises(ProblemError, match="line 1: is not a decision"):
        list(read_decisions(path))


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(ProblemError, match=r"decisions\.jsonl: cannot be read: No such file"):
        list(read_decisions(path))
