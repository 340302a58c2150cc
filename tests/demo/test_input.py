from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elastream.cli.demo.command import demo
from elastream.cli.run_summaries import write_summary


@pytest.fixture
def refused(refusing: Any) -> Any:  # arguments -> the one line
    return refusing(demo, "elastream.demo.run.run")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--planner", "best"], "--planner: 'best' is not one of "),
        (["--picture", "day.bmp"], "--picture: day.bmp does not end in .png, .svg, .pdf"),
        (["--json", "no-such-folder/a.json"], "--json: the folder no-such-folder does not exist"),
        (["--json", "/"], "--json: / is a folder; name a file"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line_before_anything_starts(
    refused: Any, arguments: list[object], line: str
) -> None:
    assert refused(*arguments).startswith(line)


def test_a_log_that_is_another_file_is_left_alone(refused: Any, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine\n")
    assert "is not a decision log" in refused("--log", file)
    assert file.read_text() == "mine\n"


def test_a_summary_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    write_summary(file, {"rows": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_summary(file, {"rows": float("nan")})
    assert json.loads(file.read_text()) == {"rows": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
