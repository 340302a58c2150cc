"""A package of somebody else, installed once for all tests of programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a package of somebody else is installed, with a goal, a planner and a command."""
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
