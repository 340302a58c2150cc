"""A run as a picture, from its decision log."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.page.runs import logged

import elastream
from elastream import ProblemError
from elastream.core.decision_log import DecisionLog
from elastream.core.decisions import Decision
from elastream.page.plot import course_of

pytest.importorskip("matplotlib")


def test_the_figures_drawn_are_those_of_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    loop = logged(path)
    course = course_of(path)
    assert course.executors[0][1] == 2
    assert course.executors[-1][1] == len(loop.state.executors) > 2
    assert {most for _, most in course.most} == {4}
    assert set(course.batches) == set(course.state) == {"orders"}
    moments = [decision.at_ms for decision in loop.of("scale-out", "scale-in", "rebalance")]
    assert [at for at, _ in course.changes] == moments
    assert [at for at, _ in course.batches["orders"]] == sorted(
        at for at, _ in course.batches["orders"]
    )


def test_a_picture_is_made_in_two_lines(tmp_path: Path) -> None:
    logged(tmp_path / "decisions.jsonl", seconds=40)
    figure = elastream.plot(tmp_path / "decisions.jsonl")
    figure.savefig(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["executors", "busy", "batch, s", "state, MB"]


def test_a_log_without_scenes_and_what_is_no_log_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    DecisionLog(path).append(Decision(0, None, "attach", "attached", 2))
    with pytest.raises(ProblemError, match="has no scenes to draw"):
        elastream.plot(path)
    path.write_text("words\n")
    with pytest.raises(ProblemError, match="line 1: is not a decision"):
        elastream.plot(path)
    with pytest.raises(ProblemError, match="cannot be read"):
        elastream.plot(tmp_path / "none")
