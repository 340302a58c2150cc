from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.spark
def test_letting_go_of_a_driver_whose_jvm_has_died_is_no_error_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    scratch, folder = tmp_path / "scratch", tmp_path / "folder"
    scratch.mkdir()
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.killed_jvm", str(folder)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(scratch)},
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["left well"], done.stderr[-2000:]
    assert [path.name for path in scratch.iterdir() if path.name.startswith("elastream-")] == []
