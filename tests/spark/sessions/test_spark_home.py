"""The shared Spark home, and where the archive of its classes is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elastream.model.errors import SparkError
from elastream.spark.sessions.class_archive import (
    archive_file,
    archive_options,
    make_archive,
    recording_options,
)
from elastream.spark.sessions.spark_home import (
    application_pattern,
    cache_folder,
    remove_applications,
    spark_home,
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def java(tmp_path: Path) -> Path:
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho no archive today\nexit 1\n")
    program.chmod(0o755)
    return tmp_path / "java"


def test_all_sessions_of_an_installation_share_a_home(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    import pyspark

    home = spark_home(tmp_path, environ)
    assert home == spark_home(tmp_path / "another", environ)
    installed = Path(pyspark.__file__).parent
    assert (home / "jars").resolve() == (installed / "jars").resolve()
    assert not (home / "work").exists()
    assert [entry.name for entry in (tmp_path / "cache" / "elastream").iterdir()] == [home.name]


def test_where_nothing_shared_can_be_written_the_home_goes_with_the_session(
    tmp_path: Path, java: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    environ = {"XDG_CACHE_HOME": str(file)}
    assert cache_folder(environ) is None
    home = spark_home(tmp_path, environ)
    assert home == tmp_path / "spark"
    assert archive_file(java, home, environ) is None


def test_a_session_removes_what_its_own_workers_wrote(tmp_path: Path) -> None:
    own, other = (application_pattern(token) % ("20261116", 0) for token in ("abc", "xyz"))
    for name in (own, other):
        (tmp_path / "work" / name / "0").mkdir(parents=True)
    remove_applications(tmp_path, "abc")
    assert [folder.name for folder in (tmp_path / "work").iterdir()] == [other]


def test_an_archive_belongs_to_one_java_and_one_home(
    tmp_path: Path, environ: dict[str, str], java: Path
) -> None:
    home = spark_home(tmp_path, environ)
    archive = archive_file(java, home, environ)
    assert archive is not None
    assert archive == archive_file(java, home, environ)
    os.utime(java / "bin" / "java", ns=(1, 1))
    assert archive != archive_file(java, home, environ), "another Java"


def test_an_archive_that_is_not_there_is_not_asked_for(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    assert archive_options(None) == archive_options(archive) == ""
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in archive_options(archive)


def test_a_java_that_makes_none_is_reported_and_leaves_nothing(tmp_path: Path, java: Path) -> None:
    archive, folder = tmp_path / "classes.jsa", tmp_path / "lists"
    folder.mkdir()
    assert str(folder) in recording_options(folder)
    with pytest.raises(SparkError, match="no executor has listed"):
        make_archive(archive, java, folder, "a.jar", "-Xmx1m")
    (folder / "1.classes").write_text("java/lang/Object")
    with pytest.raises(SparkError, match="no archive today"):
        make_archive(archive, java, folder, "a.jar", "-Xmx1m")
    assert not archive.exists()


def test_archives_that_are_not_used_go(tmp_path: Path, java: Path) -> None:
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "1.classes").write_text("java/lang/Object")
    (java / "bin" / "java").write_text(
        '#!/bin/sh\nfor a do case "$a" in -XX:SharedArchiveFile=*) touch "${a#*=}";; esac; done\n'
    )
    for number in range(5):
        archive = tmp_path / f"classes-{number}.jsa"
        make_archive(archive, java, folder, "a.jar", "-Xmx1m")
        os.utime(archive, (number, number))
    left = sorted(file.name for file in tmp_path.glob("*.jsa"))
    assert left == ["classes-2.jsa", "classes-3.jsa", "classes-4.jsa"]
