from __future__ import annotations

from pathlib import Path

from elastream_lab.campaign.folders import Folders
from elastream_lab.campaign.verdict import left_files


def test_what_is_left_is_forgiven_only_to_what_was_killed(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    for application in (0, 1, 2):
        for name in ("snappy-1.so", "elastream-x", "of-nobody"):
            folders.temporary(application).mkdir(parents=True, exist_ok=True)
            (folders.temporary(application) / name).touch()
    left = left_files(folders, cut=[1], jvms=[1, 2], names=[])
    assert [str(Path(each).relative_to(tmp_path / "tmp")) for each in left] == [
        "0/elastream-x",
        "0/of-nobody",
        "0/snappy-1.so",
        "1/of-nobody",
        "2/elastream-x",
        "2/of-nobody",
    ]
