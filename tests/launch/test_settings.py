from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elastream import ByHand, Policy, ProblemError, Utilisation
from elastream.launch.settings import RunSettings, goal_given
from elastream.resilience import Resilient


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("utilisation", Utilisation()),
        ("by-hand", ByHand()),
        ("resilient", Resilient()),
        ("tests.launch.goals:eager", Utilisation(target=0.02, hysteresis=0.01)),
        ("elastream:ByHand", ByHand()),
    ],
)
def test_a_goal_has_a_name(name: str, goal: object, tmp_path: Path) -> None:
    assert goal_given(name, str(tmp_path)) == goal


def test_a_goal_next_to_the_program_is_found_and_the_path_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "goals_of_mine.py").write_text("import elastream\n\nmine = elastream.ByHand()\n")
    before = list(sys.path)
    assert goal_given("goals_of_mine:mine", str(tmp_path)) == ByHand()
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "best",
            "'best' is not one of by-hand, combined, replication, resilient, schedule, "
            "utilisation, nor module:name",
        ),
        ("schedule", "'schedule' needs sizes: make one in a module and give module:name"),
        ("combined", "'combined' needs how_many and where: make one in a module and give "),
        ("elastream:Schedule", "'elastream:Schedule' needs sizes: make one in a module and give "),
        ("nowhere_at_all:goal", "cannot be found: No module named 'nowhere_at_all'"),
        ("elastream:Magic", "cannot be found: module 'elastream' has no attribute 'Magic'"),
        ("sys:maxsize", "not a goal"),
    ],
)
def test_what_is_no_goal_is_refused(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"^goal: ") as raised:
        goal_given(name, str(tmp_path))
    assert why in str(raised.value)


def test_a_master_without_executors_is_refused_before_anything_starts() -> None:
    with pytest.raises(ProblemError, match=r"^master: local\[\*\] is one process without"):
        RunSettings(Policy(max_executors=2), master="local[*]")


@pytest.mark.parametrize("name", ["page_token", "page_certificate"])
def test_what_belongs_to_the_page_is_refused_without_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=f"{name}: means something only with `page`"):
        RunSettings(Policy(max_executors=2), **{name: tmp_path / "file"})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
