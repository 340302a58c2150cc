"""How a study shows its figures, and what it leaves of a run that does not come to its end."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from elastream_lab.cli.study.output import kept, show, tell
from elastream_lab.studies.figure import Curves, Figure


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


def test_a_study_that_is_ended_draws_what_was_done_until_then(tmp_path: Path) -> None:
    path = tmp_path / "study.svg"
    with pytest.raises(KeyboardInterrupt):
        tell("made", [stopped], None, path)
    assert not path.exists(), "nothing was done"
    curves = Curves("rate", ("borne",), None)
    half = Figure("half of it", "made", [{"rate": 1, "borne": 2}], curves, True, "So it is.")
    with pytest.raises(KeyboardInterrupt):
        tell("made", [stopped], None, path, cut_short=lambda: (half,))
    assert "half of it" in path.read_text()


def test_figures_that_were_made_are_not_made_of_halves_again(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    makers = [lambda: (figure("first"),), stopped]
    with pytest.raises(KeyboardInterrupt):
        tell("made", makers, path, None, cut_short=lambda: (figure("half"),))
    assert written(path) == ["first", "no figure"]
    tell("made", makers[:1], path, None, cut_short=lambda: (figure("half"),))
    assert written(path) == ["first"]


def test_what_a_long_run_has_is_written_with_every_line_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.json"
    made: list[Figure] = []
    say = kept("made", path, lambda: tuple(made))
    say("it begins")
    assert not path.exists(), "what an earlier run wrote stays while there is nothing"
    for name in ("first", "second"):
        made.append(figure(name))
        say(f"{name} of two")
    assert written(path) == ["first", "second"]
    assert capsys.readouterr().out.splitlines() == ["it begins", "first of two", "second of two"]
    kept("made", None, lambda: tuple(made))("nothing is to be written")


@pytest.mark.parametrize("columns", [1, 6, 20])
def test_no_figure_is_cut_however_narrow_the_screen_is(columns: int) -> None:
    row = {f"a_column_{k}": 1000.5 + k for k in range(columns)}
    report = io.StringIO()
    says = "As the paper says, and in more words than there is room for in a line."
    show(Console(file=report, width=40), Figure("wide", "made", [row], None, True, says))
    for k in range(columns):
        assert f"{1000.5 + k:.4g}" in report.getvalue()
    assert "\u2026" not in report.getvalue()
    prose = [line for line in report.getvalue().splitlines() if line[:1].isalpha()]
    assert len(prose) > 2
    assert max(map(len, prose)) <= 40


def test_no_heading_is_cut_however_narrow_the_screen_is() -> None:
    headings = ["mechanism", "weighting", "mean_response_time_s", "reconfigurations", "cost"]
    report = io.StringIO()
    row: dict[str, object] = dict.fromkeys(headings, "a b")
    show(Console(file=report, width=40), Figure("wide", "made", [row], None, True, "As it says."))
    for heading in headings:
        for word in heading.split("_"):
            assert word in report.getvalue()
    assert "\u2026" not in report.getvalue()
