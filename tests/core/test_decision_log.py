from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_decisions import HOLD, SAMPLE, decisions, samples

from elastream.core.decision_log import DecisionLog, log_writer, read_decisions, read_log
from elastream.core.decisions import (
    OLDEST_VERSION,
    VERSION,
    Decision,
    decision_of,
    line_of,
)
from elastream.core.samples import Sample
from elastream.model.errors import ProblemError

DONE = Decision(2000, 1, "done", "all moved", 4)
LINES = [Decision(at_ms, None, "hold", "as before", 1) for at_ms in range(1000, 1011)]
"""All of the same length."""
LINE = len(line_of(LINES[0])) + 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


def written(path: Path, *said: Decision | Sample) -> Path:
    log = DecisionLog(path)
    for each in said:
        log.append(each)
    return path


def rotated(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


@given(said=st.lists(decisions | samples(), min_size=1, max_size=5))
@settings(max_examples=100)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, said: list[Decision | Sample]
) -> None:
    path = tmp_path_factory.mktemp("log") / "decisions.jsonl"
    assert list(read_log(written(path, *said))) == said


def test_who_reads_decisions_does_not_see_samples(path: Path) -> None:
    assert list(read_decisions(written(path, SAMPLE, HOLD, SAMPLE, DONE))) == [HOLD, DONE]


@pytest.mark.parametrize("left", [1, 5, 40])
def test_a_torn_last_line_is_skipped_with_a_warning(path: Path, left: int) -> None:
    written(path, HOLD)
    with path.open("a") as file:
        file.write(line_of(DONE)[:left])
    torn: list[str] = []
    assert list(read_decisions(path, torn=torn.append)) == [HOLD]
    assert torn == [f"{path}, line 2"]


def test_a_torn_line_in_the_middle_is_skipped_with_a_warning(path: Path) -> None:
    half = line_of(DONE)[:30]
    path.write_text(f"{line_of(HOLD)}\n{half}\n{line_of(DONE)}\n")
    torn: list[str] = []
    assert list(read_log(path, torn=torn.append)) == [HOLD, DONE]
    assert torn == [f"{path}, line 2"]


def test_an_empty_line_is_passed_over(path: Path) -> None:
    path.write_text(f"{line_of(HOLD)}\n\n{line_of(DONE)}\n")
    assert list(read_decisions(path)) == [HOLD, DONE]


@pytest.mark.parametrize("torn_first", [False, True])
def test_a_writer_cuts_a_torn_line_off_and_goes_on(path: Path, torn_first: bool) -> None:
    if not torn_first:
        written(path, HOLD)
    with path.open("a") as file:
        file.write(line_of(DONE)[:17])
    written(path, DONE)
    assert list(read_decisions(path)) == ([DONE] if torn_first else [HOLD, DONE])


SHORT_WRITE = """
import resource, sys
from pathlib import Path
from elastream.core.decision_log import DecisionLog
from tests.core.test_decision_log import LINES

path, limit = Path(sys.argv[1]), int(sys.argv[2])
log = DecisionLog(path)
log.append(LINES[0])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
for line in LINES[1:3]:
    try:
        log.append(line)
    except OSError as error:
        print(type(error).__name__, path.stat().st_size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
log.append(LINES[3])
"""


@pytest.mark.parametrize("room", [0, 1, LINE - 1])
def test_a_write_that_is_cut_short_leaves_no_half_line(path: Path, room: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT_WRITE, str(path), str(LINE + room)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.splitlines() == [f"OSError {LINE}"] * 2
    assert path.read_text() == f"{line_of(LINES[0])}\n{line_of(LINES[3])}\n"


def test_where_half_a_line_cannot_be_cut_off_the_next_begins_on_a_new_one(path: Path) -> None:
    path.symlink_to("/dev/full")
    log = DecisionLog(path)
    with pytest.raises(OSError, match="No space left"):
        log.append(HOLD)
    path.unlink()
    path.write_text(line_of(HOLD)[:20])
    log.append(DONE)
    log.append(HOLD)
    assert list(read_decisions(path)) == [DONE, HOLD]


def test_a_file_that_has_grown_is_put_aside_and_the_oldest_is_dropped(path: Path) -> None:
    log = DecisionLog(path, max_bytes=2 * LINE, keep=2)
    for line in LINES:
        log.append(line)
    files = {
        file.name: [decision.at_ms for decision in read_decisions(file)]
        for file in (path, rotated(path, 1), rotated(path, 2))
    }
    assert files == {
        "decisions.jsonl": [1006, 1007, 1008, 1009, 1010],
        "decisions.jsonl.1": [1008, 1009],
        "decisions.jsonl.2": [1006, 1007],
    }
    assert not rotated(path, 3).exists()
    assert path.read_text().count("\n") == 1


def test_a_log_is_read_across_rotations_the_oldest_first(path: Path) -> None:
    log = DecisionLog(path, max_bytes=2 * LINE, keep=9)
    for line in LINES:
        log.append(line)
    assert list(read_decisions(path)) == LINES


def test_a_log_whose_newest_file_is_not_there_yet_is_read(path: Path) -> None:
    log = DecisionLog(path, max_bytes=LINE, keep=9)
    log.append(LINES[0])
    log.append(LINES[1])
    path.unlink()  # as if its writer had been killed between rotating and writing
    assert list(read_decisions(path)) == LINES[:1]


def test_a_writer_goes_on_after_rotations_of_another(path: Path) -> None:
    for line in LINES[:4]:
        DecisionLog(path, max_bytes=2 * LINE).append(line)
    assert list(read_decisions(path)) == LINES[:4]


def test_nothing_is_put_aside_where_nothing_shall_be_kept(path: Path) -> None:
    log = DecisionLog(path, max_bytes=2 * LINE, keep=0)
    for line in LINES[:3]:
        log.append(line)
    assert list(read_decisions(path)) == [LINES[2]]
    assert not rotated(path, 1).exists()


def test_a_file_that_is_no_log_is_left_alone(path: Path) -> None:
    path.write_text("id,name\n1,a")
    with pytest.raises(ProblemError, match="exists and is not a decision log; unchanged"):
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
        ('{"v": 1}\n', "version 1; this elastream reads 2 to 3"),
        ('{"v": 4}\n', "version 4; this elastream reads 2 to 3: read it with the newer elastream"),
        ('{"v": "3"}\n', "version '3'; this elastream reads 2 to 3"),
        ('{"v": 2, "kind": "hold"}\n', "missing"),
        ('{"v": 2, "kind": "sample"}\n', "missing"),
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
    with path.open("wb") as file:
        file.write(b'{"v": 2, ')
        file.truncate(17 << 20)
    with pytest.raises(ProblemError, match="line 1: is not a decision"):
        list(read_decisions(path))


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(ProblemError, match=r"decisions\.jsonl: cannot be read: No such file"):
        list(read_decisions(path))


def test_a_log_may_be_lines_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    write = log_writer("-")
    write(HOLD)
    write(replace(HOLD, kind="scale-out"))
    lines = capsys.readouterr().out.splitlines()
    assert [decision_of(json.loads(line)) for line in lines] == [
        HOLD,
        replace(HOLD, kind="scale-out"),
    ]
    assert not Path("-").exists()


def test_lines_of_the_version_before_are_read(path: Path) -> None:
    path.write_text(line_of(HOLD).replace(f'"v": {VERSION}', f'"v": {OLDEST_VERSION}') + "\n")
    assert list(read_decisions(path)) == [HOLD]
    DecisionLog(path).append(HOLD)
    assert list(read_decisions(path)) == [HOLD, HOLD], "a log goes on in the next version"


def test_a_log_is_a_file_a_function_or_nothing(path: Path) -> None:
    entries: list[Decision] = []
    for log in (path, entries.append, None):
        write = log_writer(log)
        write(HOLD)
        write(SAMPLE)
    assert list(read_log(path)) == [HOLD, SAMPLE]
    assert entries == [HOLD], "samples go to files alone"


def test_the_name_of_a_file_may_be_a_text(path: Path) -> None:
    log_writer(str(path))(HOLD)
    assert list(read_log(path)) == [HOLD]
