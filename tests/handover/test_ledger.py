from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.handover.notes import owner_of, read_notes

from elastream.handover.ledger import (
    Note,
    OwnershipLog,
    Record,
    RecordFile,
)
from elastream.handover.model import Boundary
from elastream.model.errors import ProblemError

BOUNDARY = Boundary(3, 5, (5,), (0,))
RECORD = Record("h", "q", "committed", BOUNDARY, "t", "why")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "new" / "record.json")
    assert file.read() is None
    file.write(RECORD)
    file.write(RECORD)
    assert file.read() == RECORD
    assert [path.name for path in file.path.parent.iterdir()] == ["record.json"]


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "record.json")
    file.write(RECORD)
    blocked = RecordFile(tmp_path / "record.json" / "inside")
    with pytest.raises(OSError, match=r"record\.json"):
        blocked.write(RECORD)
    assert file.read() == RECORD


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"v": 2}', "\x00"])
def test_a_file_that_is_no_record_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(ProblemError, match="is not a handover record"):
        RecordFile(path).read()


def test_a_record_serves_one_process_at_a_time(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "record.json")
    with (
        file.hold(),
        pytest.raises(ProblemError, match="in use by another process"),
        RecordFile(file.path).hold(),
    ):
        pass
    with file.hold():
        pass


def test_a_log_is_read_as_it_was_written_without_a_torn_last_line(tmp_path: Path) -> None:
    log = OwnershipLog(tmp_path / "new" / "handover.jsonl")
    notes = [
        Note("origin", "commit", "h", "split", "decided", BOUNDARY),
        Note("target", "leave", "h", "origin", "refused"),
    ]
    for note in notes:
        log.append(note, at_ms=1)
    with log.path.open("a") as file:
        file.write('{"v": 1, "at_')
    assert list(read_notes(log.path)) == notes


def test_a_write_cut_short_leaves_no_half_line_and_the_log_goes_on(tmp_path: Path) -> None:
    log = OwnershipLog(tmp_path / "handover.jsonl")
    note = Note("origin", "commit", "h", "split", "decided", BOUNDARY)
    log.append(note, at_ms=1)
    size = log.path.stat().st_size
    code = (
        "import resource, signal\n"
        "from pathlib import Path\n"
        "from elastream.handover.ledger import Note, OwnershipLog\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 20}, {size + 20}))\n"
        f"log = OwnershipLog(Path({str(log.path)!r}))\n"
        "log.append(Note('origin', 'abort', 'h', 'origin', 'silent'), at_ms=2)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert b"bytes were written" in ended.stderr
    assert log.path.stat().st_size == size
    log.append(note, at_ms=3)
    assert list(read_notes(log.path)) == [note, note]


def test_a_writer_cuts_off_the_line_that_a_crash_tore(tmp_path: Path) -> None:
    note = Note("origin", "commit", "h", "split", "decided", BOUNDARY)
    log = OwnershipLog(tmp_path / "handover.jsonl")
    log.append(note, at_ms=1)
    with log.path.open("a") as file:
        file.write('{"v": 1, "at_')
    OwnershipLog(log.path).append(note, at_ms=2)
    assert list(read_notes(log.path)) == [note, note]


def test_a_file_that_is_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("dear diary")
    with pytest.raises(ProblemError, match="exists and is not a handover log"):
        OwnershipLog(other)
    assert other.read_text() == "dear diary"


def test_the_boundary_splits_the_windows_between_the_sides() -> None:
    note = Note("origin", "commit", "h", "split", "decided", BOUNDARY)
    assert [owner_of(start, note) for start in (3, 4, 5, 6)] == [
        "origin",
        "origin",
        "target",
        "target",
    ]
    assert owner_of(6, Note("origin", "abort", "h", "origin", "silent")) == "origin"
    assert owner_of(6, Note("target", "doubt", "h", "undecided", "silent", BOUNDARY)) is None
