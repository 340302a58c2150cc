from __future__ import annotations

from pathlib import Path

import pytest
from tests.foresight.traces.recorded import done, sample

from elastream.attachment.trace_recorder import TraceRecorder
from elastream.core.decision_log import read_log
from elastream.core.decisions import Decision
from elastream.core.learning import Size
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId

TASK = TaskId("q", 0, 0)


def test_samples_and_changes_are_kept_and_nothing_else(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "new" / "folder")
    hold = Decision(1000, 1, "hold", "nothing to do", 2, 0.5, {}, "q")
    for entry in (sample(1, ["1"], {TASK: (0.5, 1)}), hold, done(2, 3)):
        recorder.write(entry)
    kept = list(read_log(tmp_path / "new" / "folder" / "samples.jsonl"))
    assert kept == [sample(1, ["1"], {TASK: (0.5, 1)}), done(2, 3)]


def test_the_next_attachment_knows_the_sizes_that_followed_one_another(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path)
    assert recorder.learning.sizes == ()
    recorder.write(sample(1, ["1", "2"], {TASK: (0.5, 1)}))
    recorder.write(sample(2, ["1", "2"], {TASK: (0.5, 1)}))
    recorder.write(done(3, 4))
    recorder.write(done(4, 0))  # idle: no size that state could be planned for
    recorder.write(done(5, 2))
    assert TraceRecorder(tmp_path).learning.sizes == (Size(1000, 2), Size(3000, 4), Size(5000, 2))


def test_the_folder_does_not_grow_without_end(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path, max_bytes=4096, keep=2)
    tasks = {TaskId("q", 0, partition): (0.5, 1000) for partition in range(20)}
    for second in range(500):
        recorder.write(sample(second, ["1"], tasks))
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["samples.jsonl", "samples.jsonl.1", "samples.jsonl.2"]
    assert sum(file.stat().st_size for file in files) < 4 * 4096


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ProblemError, match=r"notes is a file; name a folder"):
        TraceRecorder(tmp_path / "notes")
    with pytest.raises(ProblemError, match=r"cannot be made: Not a directory"):
        TraceRecorder(tmp_path / "notes" / "deeper")


def test_the_next_attachment_knows_the_load_by_its_times(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path)
    assert list(recorder.past()) == []
    other = TaskId("r", 0, 0)
    recorder.write(sample(60, ["1"], {TASK: (0.5, 1), other: (0.25, 1)}))
    recorder.write(done(90, 2))
    recorder.write(sample(120, ["1", "2"], {TASK: (1.5, 1)}))
    assert list(TraceRecorder(tmp_path).past()) == [(60_000, 0.75), (120_000, 1.5)]
