"""Where only the product is installed, commands work or say in one line what to install."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.distribution.conftest import Environment, MakeEnvironment, project
from tests.replication.test_commands import PROBLEM as REPLICATION

from elastream.cli.main import main
from elastream.extras import INSTALL_LAB, install_command

pytestmark = pytest.mark.xdist_group("distribution")  # the wheels are built once

STEP = {"work": [1, 1, 1, 1], "state": [1, 1, 1, 1], "current": [[0, 4]], "nodes": 2, "tau": 0}
UNEVEN = {
    "work": [19, 77, 33, 40, 49, 85, 22, 16, 53, 89],
    "state": [424, 534, 763, 190, 833, 41, 590, 28, 719, 655],
    "current": [[0, 4], [4, 7], [7, 10]],
}
CHAIN = {"sizes": [2, 3, 4], "matrix": [[0.3, 0.6, 0.1], [0.3, 0.4, 0.3], [0.1, 0.5, 0.4]]}
TARGETS = [{"nodes": 4, "tau": 0.6}, {"nodes": 2, "tau": 0.3}]
PROBLEMS: dict[str, dict[str, object]] = {
    "free-ahead": UNEVEN | {"nodes": 4, "tau": 0.3, "futures": [{"odds": 1, "targets": TARGETS}]},
    "free-step": UNEVEN | {"nodes": 4, "tau": 0.05},
    "replication": REPLICATION,
    "resilient": {"load": [[2, 0], [0, 1], [1, 1]], "capacity": [1, 1]},
    "sequence": UNEVEN | {"targets": TARGETS, "gamma": 0.8},
    "single-step": UNEVEN | {"nodes": 4, "tau": 0.6},
    "transition": UNEVEN | {"nodes": 4, "tau": 0.6, "chain": CHAIN | {"gamma": 0.8}},
}


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
    ended = base.run("--help")
    assert ended.returncode == 0
    assert "demo" in ended.stdout
    assert "study" not in ended.stdout, "what is not installed is not offered"


def test_the_base_has_neither_numba_nor_scipy(base: Environment) -> None:
    libraries = {path.name for path in base.site.iterdir()}
    assert {"highspy", "numpy"} <= libraries
    assert not {"llvmlite", "numba", "pyspark", "scipy"} & libraries


@pytest.mark.parametrize("planner", sorted(PROBLEMS))
def test_a_planner_in_the_base_says_what_it_says_with_all_libraries(
    base: Environment, planner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = tmp_path / "problem.json"
    problem.write_text(json.dumps(PROBLEMS[planner]))
    ended = base.run("plan", *planner.split(), str(problem))
    code = main(["plan", *planner.split(), str(problem)])
    assert ended.returncode == code == 0, ended.stderr
    assert all(line.endswith(install_command("fast")) for line in ended.stderr.splitlines())
    plans = [json.loads(out) for out in (ended.stdout, capsys.readouterr().out)]
    alone, together = [{**plan, "solve_s": None} for plan in plans]
    assert alone == together


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
    assert line == f"elastream: elastream {command} comes with the lab: {INSTALL_LAB}"


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
    assert line == f"elastream: {library} is not installed: {install_command('spark')}"


def test_the_doctor_says_what_to_install(base: Environment) -> None:
    ended = base.run("doctor", "--json")
    assert ended.returncode == 2
    first = json.loads(ended.stdout)["findings"][0]
    assert (first["name"], first["verdict"]) == ("spark", "fail")
    assert first["todo"] == install_command("spark")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("picture", [(), ("--picture", "day.png")])
def test_a_picture_that_could_not_be_drawn_is_refused_before_the_run(
    with_spark: Environment, picture: tuple[str, ...]
) -> None:
    line = with_spark.refusal("demo", *picture)
    assert line == f"elastream: matplotlib is not installed: {install_command('demo')}"


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
