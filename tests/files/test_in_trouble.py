"""One suite for all writers: whatever fails below, a file is the old one or the new one, whole."""

from __future__ import annotations

import errno
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.files.in_trouble import FAULTS, LONG, Outcome, writers

BOUNDED = ("small files", "no descriptors", "full disk", "read-only folder")
ERRORS = {
    "small files": {errno.EFBIG, 0},
    "no descriptors": {errno.EMFILE},
    "full disk": {errno.ENOSPC, 0},
    "read-only folder": {errno.EACCES},
}
"""What the system says; 0 where it has written a part and said nothing, and we say so."""


@contextmanager
def small_disk() -> Iterator[Path]:
    """A disk of 256 kB, for root; others have none."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "elastream-test", folder]
        try:
            subprocess.run(mount, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no small disk can be mounted here: that needs root")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@functools.cache
def outcomes(fault: str) -> dict[str, Outcome]:
    """What became of every writer under the fault; found out once."""
    made = small_disk() if fault == "full disk" else tempfile.TemporaryDirectory()
    with made as folder:
        command = [sys.executable, "-m", "tests.files.in_trouble", fault, str(folder)]
        root = Path(__file__).parents[2]
        done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
    return {name: Outcome(**entry) for name, entry in json.loads(done.stdout).items()}


@pytest.mark.parametrize("writer", writers())
@pytest.mark.parametrize("fault", BOUNDED)
def test_what_cannot_be_written_leaves_the_old_and_nothing_next_to_it(
    fault: str, writer: str
) -> None:
    found = outcomes(fault)[writer]
    assert found.error in ERRORS[fault]
    assert found.after == found.before == "a"
    rotated = ["file.svg.1"] if "file.svg.1" in found.names else []
    assert [name for name in found.names if name not in rotated] in (["file.svg"], [])
    assert found.again == ("ac" if "lines" in writer or writer == "decisions" else "c")


@pytest.mark.parametrize("writer", ["synced text", "synced json"])
@pytest.mark.parametrize(
    ("fault", "after"), [("failing sync", "a"), ("failing sync of the folder", "b" * LONG)]
)
def test_a_disk_that_does_not_confirm_is_reported_and_the_file_is_whole(
    fault: str, after: str, writer: str
) -> None:
    found = outcomes(fault)[writer]
    assert found.error == errno.EIO
    assert (found.after, found.again, found.names) == (after, "c", ["file.svg"])


def test_every_fault_is_tried() -> None:
    assert {*BOUNDED, "failing sync", "failing sync of the folder"} == FAULTS.keys()


def test_lines_go_on_after_a_device_that_is_full(tmp_path: Path) -> None:
    """A device cannot be cut back: the next line begins on a new one, and no reader stumbles."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    log = writers()["lines"]
    path = tmp_path / "log"
    log.write(path, "a")
    path.rename(tmp_path / "kept")
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        log.write(path, "b")
    path.unlink()
    (tmp_path / "kept").rename(path)
    log.write(path, "c")
    assert path.read_text() == '{"v": 1, "text": "a"}\n\n{"v": 1, "text": "c"}\n'
