from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from elastream.atomic_io import replacing, write_json, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("synced", [False, True])
def test_a_file_is_replaced_and_nothing_is_left_next_to_it(tmp_path: Path, synced: bool) -> None:
    file = tmp_path / "file"
    write_text(file, "old\n", synced=synced)
    write_text(file, "é\n", synced=synced)
    assert file.read_text(encoding="utf-8") == "é\n"
    assert names(tmp_path) == ["file"]


def test_until_it_is_whole_the_old_file_is_there(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with replacing(file) as temporary:
        temporary.write_text("half")
        assert file.read_text() == "old"
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".")
        assert temporary.suffix != file.suffix
    assert file.read_text() == "half"


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_next_to_it(
    tmp_path: Path, failure: BaseException
) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def fail() -> None:
        with replacing(file) as temporary:
            temporary.write_text("half")
            raise failure

    with pytest.raises(type(failure)):
        fail()
    assert file.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_what_cannot_be_put_in_place_leaves_nothing_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_text(tmp_path / "folder", "text")
    assert names(tmp_path) == ["folder"]


def test_a_folder_that_is_not_there_is_said_by_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "none" / "file", "text")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_keeps_its_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            write_text(file, "new")
        assert file.read_text() == "old"
    finally:
        tmp_path.chmod(0o700)


def test_json_that_is_none_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    write_json(file, {"rows": 1}, indent=1)
    for content in ({"rows": float("nan")}, {"rows": {1}}):
        with pytest.raises((ValueError, TypeError)):
            write_json(file, content)
    assert json.loads(file.read_text()) == {"rows": 1}
    assert names(tmp_path) == ["file.json"]


@pytest.mark.parametrize(("mode", "mask", "expected"), [(0o666, 0o027, 0o640), (0o600, 0, 0o600)])
def test_a_file_may_be_used_as_its_mode_and_the_mask_of_the_process_say(
    tmp_path: Path, mode: int, mask: int, expected: int
) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "file", "text", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == expected
