"""Where only the product is installed, commands work or say in one line what to install."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.distribution.conftest import Environment, MakeEnvironment, project

pytestmark = pytest.mark.xdist_group("distribution")  # the wheels are built once

STEP = {"work": [1, 1, 1, 1], "state": [1, 1, 1, 1], "current": [[0, 4]], "nodes": 2, "tau": 0}


@pytest.fixture(scope="module")
def base(environment: MakeEnvironment) -> Environment:
    """``pip install elastream``, without an extra."""
    return environment()


@pytest.fixture(scope="module")
def with_spark(environment: MakeEnvironment) -> Environment:
    """``pip install "elastream[spark]"``."""
    return environment("spark")


def test_help_and_version_work(base: Environment) -> None:
    assert base.run("--version").stdout == f"elastream {project()['version']}\n"
    told = base.run("--help")
    assert told.returncode == 0
    assert "demo" in told.stdout
    assert "study" not in told.stdout, "what is not installed is not offered"


def test_planners_need_no_extra(base: Environment) -> None:
    problem = base.folder / "problem.json"
    problem.write_text(json.dumps(STEP))
    for planner in ("single-step", "free-step"):
        ended = base.run("plan", planner, str(problem))
        assert json.loads(ended.stdout)["cost"] == 2, ended.stderr


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("study", ()),
        ("study", ("--help",)),
        ("patterns", ("x",)),
        ("taxi", ("x",)),
        ("trace build", ("--x",)),
        ("bench", ("migration", "--picture", "a.png")),
        ("measure", ()),
        ("traffic", ("-v",)),
    ],
)
def test_a_command_of_the_lab_says_what_to_install(
    base: Environment, command: str, arguments: tuple[str, ...]
) -> None:
    line = base.refusal(*command.split(), *arguments)
    assert line == f"elastream: elastream {command} comes with the lab: pip install elastream-lab"


@pytest.mark.parametrize(
    ("library", "arguments"),
    [
        ("pyarrow", ["values", "build", "PROBLEM", "--out", "values.parquet"]),
        ("pyspark", ["values", "build", "PROBLEM", "--out", "values.parquet", "--spark"]),
        ("pyspark", ["handover", "serve", "queries:sums"]),
    ],
)
def test_a_command_that_needs_spark_says_what_to_install(
    base: Environment, library: str, arguments: list[str]
) -> None:
    problem = base.folder / "projection.json"
    chain = {"sizes": [1, 2], "matrix": [[0, 1], [1, 0]], "gamma": 0.5}
    problem.write_text(
        json.dumps({key: STEP[key] for key in ("work", "state", "tau")} | {"chain": chain})
    )
    (base.site / "queries.py").write_text("from pyspark.sql import functions\n")
    line = base.refusal(*(str(problem) if each == "PROBLEM" else each for each in arguments))
    assert line == f'elastream: {library} is not installed: pip install "elastream[spark]"'


def test_the_doctor_says_what_to_install(base: Environment) -> None:
    ended = base.run("doctor", "--json")
    assert ended.returncode == 2
    first = json.loads(ended.stdout)["findings"][0]
    assert (first["name"], first["verdict"]) == ("spark", "fail")
    assert first["todo"] == 'pip install "elastream[spark]"'
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("picture", [(), ("--picture", "day.png")])
def test_a_picture_that_could_not_be_drawn_is_refused_before_the_run(
    with_spark: Environment, picture: tuple[str, ...]
) -> None:
    line = with_spark.refusal("demo", *picture)
    assert line == 'elastream: matplotlib is not installed: pip install "elastream[demo]"'


def test_a_plug_in_that_cannot_be_loaded_breaks_no_other_command(base: Environment) -> None:
    plug_in(base.site / "broken-1.0.dist-info", "broken", "nowhere.at.all:app")
    line = base.refusal("broken", "--x")
    assert line == (
        "elastream: the command broken of nowhere.at.all:app cannot be loaded: "
        "No module named 'nowhere'"
    )
    assert base.run("--version").returncode == 0
    assert base.run("plan", "--help").returncode == 0


def plug_in(folder: Path, command: str, value: str) -> None:
    """Install a distribution that has one command and nothing else."""
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {command}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[elastream.commands]\n{command} = {value}\n")
