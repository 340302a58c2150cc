"""A package of somebody else: its goal, its planner and its command join by being installed.

``test_live.py`` runs a program under that goal and that planner.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.launch.programs import ELASTREAM, environment

from elastream.core.policy import Policy, goal_named
from elastream.model.errors import ProblemError
from elastream.registry import installed

pytestmark = pytest.mark.xdist_group("programs")  # the package is installed once


@pytest.fixture
def joined(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the package in this process."""
    monkeypatch.syspath_prepend(str(site))
    installed.cache_clear()
    yield
    installed.cache_clear()


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
