"""What a study leaves of a run that does not come to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastream_lab.cli.study.output import tell
from elastream_lab.studies.figure import Figure


def figure(name: str) -> Figure:
    return Figure(name, "made", [{"rows": 1}], None, True, "As the paper says.")


def stopped() -> tuple[Figure, ...]:
    raise KeyboardInterrupt


def written(path: Path) -> list[str]:
    return [each.get("figure", "no figure") for each in json.loads(path.read_text())]


def test_a_study_that_is_ended_writes_what_was_done_until_then(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with pytest.raises(KeyboardInterrupt):
        tell("made", [stopped], path, None, cut_short=lambda: (figure("half"),))
    assert written(path) == ["half", "no figure"]
    assert json.loads(path.read_text())[-1]["error"]


def test_figures_that_were_made_are_not_made_of_halves_again(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    makers = [lambda: (figure("first"),), stopped]
    with pytest.raises(KeyboardInterrupt):
        tell("made", makers, path, None, cut_short=lambda: (figure("half"),))
    assert written(path) == ["first", "no figure"]
    tell("made", makers[:1], path, None, cut_short=lambda: (figure("half"),))
    assert written(path) == ["first"]
