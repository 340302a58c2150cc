"""A package of somebody else: its goal, its planner and its command join by being installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.launch.programs import ELASTREAM, by_elastream, environment, written

from elastream import Decision, read_decisions
from elastream.core.policy import Policy, goal_named
from elastream.model.errors import ProblemError
from elastream.registry import installed

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "outside"
version = "1.0"

[project.entry-points."elastream.goals"]
two = "outside:Two"
broken = "outside.nowhere:Goal"
failing = "outside:fail"

[project.entry-points."elastream.planners"]
in-turn = "outside:IN_TURN"
class-only = "outside:InTurn"
number = "outside:NUMBER"

[project.entry-points."elastream.commands"]
greet = "outside:greet"

[tool.setuptools]
py-modules = ["outside"]
"""
MODULE = '''
from dataclasses import dataclass

from elastream import Goal, Wanted, step_plan

NUMBER = 7


class Two(Goal):
    """Two executors, at once."""

    name = "two"

    def wanted(self, memory, observed):
        alive = len(observed.executors)
        if alive < 2:
            return memory, Wanted("scale-out", 2, "two are better", firm=True), ()
        return memory, Wanted("hold", alive, "two are enough"), ()


@dataclass(frozen=True)
class InTurn:
    name: str = "in-turn"
    contiguous: bool = False

    def __call__(self, problem):
        nodes = problem.target.nodes
        return step_plan(problem, tuple(task % nodes for task in range(len(problem.work))))

    def explain(self, plan):
        return "each executor in turn"


IN_TURN = InTurn()


def fail():
    raise OSError("no such\\nmachine")


def greet(name: str) -> None:
    """Say hello."""
    print(f"hello {name}")
'''
PROGRAM = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 4).getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
counts = rows.selectExpr("value % 7 AS key").groupBy("key").count().writeStream
query = counts.outputMode("complete").format("memory").queryName("counts").start()
log, deadline = Path(sys.argv[1]), time.monotonic() + 400
while '"done"' not in (log.read_text() if log.exists() else "") and time.monotonic() < deadline:
    time.sleep(0.2)
batch = query.lastProgress.batchId
while query.lastProgress.batchId < batch + 2:
    time.sleep(0.1)
query.stop()
found = {row["key"]: row["count"] for row in spark.table("counts").collect()}
total = sum(found.values())
print("exact:", found == {key: len(range(key, total, 7)) for key in range(min(7, total))})
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed."""
    project, site = tmp_path_factory.mktemp("outside"), tmp_path_factory.mktemp("site")
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "outside.py").write_text(MODULE)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(project)],
        check=True,
        capture_output=True,
    )
    return site


@pytest.fixture
def joined(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the package in this process."""
    monkeypatch.syspath_prepend(str(site))
    installed.cache_clear()
    yield
    installed.cache_clear()


@pytest.mark.spark
@pytest.mark.xdist_group("programs")
def test_a_goal_and_a_planner_of_an_outside_package_scale_a_program(
    site: Path, tmp_path: Path
) -> None:
    log = tmp_path / "decisions.jsonl"
    program = written(tmp_path, PROGRAM)
    options = f"--goal two --planner in-turn --log {log}"
    environ = {"PYTHONPATH": str(site)}
    ran = by_elastream(program, str(log), options=options, environ=environ)
    assert (ran.returncode, ran.stdout) == (0, "exact: True\n"), ran.stderr
    decisions = [each for each in read_decisions(log) if isinstance(each, Decision)]
    reasons = {each.kind: each.reason for each in decisions}
    assert reasons["scale-out"] == "scale-out to 2: two are better"
    assert "each executor in turn" in reasons["plan"]
    assert reasons["done"].startswith("scale-out from 1 to 2 executors done: ")


def test_a_command_of_an_outside_package_is_one_of_elastream(site: Path) -> None:
    environ = environment({"PYTHONPATH": str(site)})
    ran = subprocess.run(
        [*ELASTREAM, "greet", "world"], env=environ, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "hello world\n"
    shown = subprocess.run(
        [*ELASTREAM, "--help"], env=environ, capture_output=True, text=True, check=True
    )
    assert "greet" in shown.stdout
    assert "Say hello." in shown.stdout


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize(
    ("goal", "why"),
    [
        ("broken", "broken of outside.nowhere:Goal cannot be loaded: ModuleNotFoundError: "),
        ("failing", "'failing' cannot be made: OSError: no such\\nmachine"),
    ],
)
def test_a_goal_that_cannot_be_had_is_refused_in_one_line(goal: str, why: str) -> None:
    with pytest.raises(ProblemError) as refused:
        goal_named(goal)
    assert str(refused.value).startswith(f"goal: {why}")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize("planner", ["class-only", "number"])
def test_what_is_not_a_planner_is_refused_when_the_policy_is_made(planner: str) -> None:
    with pytest.raises(ProblemError, match=f"planner: '{planner}' is not an object with name, "):
        Policy(max_executors=2, planner=planner)
