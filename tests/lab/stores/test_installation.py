from __future__ import annotations

from pathlib import Path

import pytest

from elastream.model.errors import ProblemError
from elastream_lab.stores.installation import installed_store

JARS = (
    "org.apache.hadoop/hadoop-aws-3.5.0.jar",
    "software.amazon.awssdk/s3-2.35.4.jar",
    "software.amazon.eventstream/eventstream-1.0.1.jar",
    "org.reactivestreams/reactive-streams-1.0.4.jar",
)


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_server_and_jars_are_found_in_the_folder_that_make_store_makes(tmp_path: Path) -> None:
    made(tmp_path, "bin/versitygw", "jars/io.delta/delta-spark-4.jar", *(f"jars/{j}" for j in JARS))
    found = installed_store(tmp_path)
    assert found.server == tmp_path / "bin/versitygw"
    assert set(found.jars) == {tmp_path / "jars" / name for name in JARS}


def test_a_folder_with_a_part_missing_is_refused_in_a_line(tmp_path: Path) -> None:
    made(tmp_path, "bin/versitygw", *(f"jars/{name}" for name in JARS[1:]))
    with pytest.raises(ProblemError, match="has no S3 server; make such a folder with: make store"):
        installed_store(tmp_path)
