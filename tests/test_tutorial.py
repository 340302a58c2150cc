"""Every step of the tutorial runs, as a reader who copies them from the page would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
from tests.documentation import PAGES, ROOT, files, name_of
from tests.spark.running_query import PATIENCE_S

from elastream import Decision, read_decisions
from elastream.spark.sessions.embedded_cluster import spark_environment
from elastream.spark.sessions.java import java_home
from elastream.spark.sessions.spark_home import spark_home

PAGE = ROOT / "docs" / "tutorial.md"
INSTALL = 'python3 -m venv .venv\n. .venv/bin/activate\npip install ".[demo]"'
NO_CACHE = {"XDG_CACHE_HOME": os.devnull}
"""With it a Spark home goes with the test."""


def steps() -> dict[str, list[str]]:
    """The commands of each section, by its heading."""
    parts = re.split(r"^## (?:\d+\. )?(.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    return {
        heading: re.findall(r"^```sh\n(.*?)\n```", text, re.DOTALL | re.MULTILINE)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def environment(folder: Path) -> dict[str, str]:
    """That of a reader who has done what the doctor says of Java, and who has installed us here."""
    ours = ("MASTER", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_REMOTE")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {
        **kept,
        **spark_environment(java_home(), spark_home(folder, NO_CACHE)),
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts on half the CPU
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COLUMNS": "200",
    }


def decisions(log: Path) -> list[Decision]:
    return list(read_decisions(log))


def kinds(log: Path) -> set[str]:
    return {decision.kind for decision in decisions(log)}


def test_the_install_step_takes_the_checkout_with_an_extra_that_it_has() -> None:
    commands = [command for section in steps().values() for command in section]
    assert [command for command in commands if "pip" in command] == [INSTALL]
    assert "demo" in (metadata("elastream").get_all("Provides-Extra") or [])


def test_no_page_installs_a_package_that_is_not_published() -> None:
    found = [
        name_of(page)
        for page in PAGES
        if re.search(r"^pip install .?elastream", page.read_text(), re.M)
    ]
    assert found == []


@pytest.mark.slow
def test_every_step_runs_and_shows_what_the_page_says(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    for name, text in files(PAGE).items():
        (folder / name).write_text(text)
    said: dict[str, str] = {}
    variables = environment(tmp_path)
    for commands in steps().values():
        for command in commands:
            if command == INSTALL:
                continue
            ran = subprocess.run(
                ["sh", "-e", "-c", command],
                cwd=folder,
                env=variables,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
            said[command] = ran.stdout
    assert said["elastream doctor"].splitlines()[-1] == "attaching would work here"
    for command, output in said.items():
        if "counts.py" in command:
            counted = re.fullmatch(r"(\d+) readings of 120 sensors\n", output)
            assert counted, f"{command}\n{output}"
            assert int(counted[1]) > 0

    advised = kinds(folder / "advice.jsonl")
    assert "advise" in advised
    assert not advised & {"scale-out", "migrate", "done"}, "it only looked on"
    assert {each.executors for each in decisions(folder / "advice.jsonl")} == {1}
    assert "advise" in said["elastream log advice.jsonl"]

    own = decisions(folder / "own.jsonl")
    assert next(each for each in own if each.kind == "done").executors == 1
    places = re.findall(r"on executor (\w+)$", said["python elastic.py"], re.MULTILINE)
    assert (len(places), len(set(places))) == (6, 1)

    acted = kinds(folder / "acting.jsonl")
    assert acted >= {"scale-out", "plan", "migrate", "done"}
    assert decisions(folder / "acting.jsonl")[-1].executors == 2
