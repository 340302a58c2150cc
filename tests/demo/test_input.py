from __future__ import annotations

import json
import subprocess
import sys
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
        (["--executors-min", 3, "--executors-max", 2], "--executors-min: 3 is above"),
        (["--executors-min", 0], "--executors-min: 0 is too small; the least is 1"),
        (["--executors-max", 99], "--executors-max: 99 is too large; the most is 16"),
        (["--seconds", 0], "--seconds: 0 is not between 1 and 3600"),
        (["--seconds", "nan"], "--seconds: nan is not finite"),
        (["--service-us", -1], "--service-us: -1.0 is negative"),
        (["--service-us", 1e9], "--service-us: 1e+09 is above a second a word"),
        (["--seed", -1], "--seed: -1 is too small"),
        (["--planner", "best"], "--planner: 'best' is not one; use free-step, "),
        (["--time", "t"], "--time: names a column of --input, which is not given"),
        (["--input", "no-such.csv"], "--input: no-such.csv cannot be read: No such file"),
        (["--picture", "day.bmp"], "--picture: day.bmp does not end in .png, .svg, .pdf"),
        (["--json", "no-such-folder/a.json"], "--json: the folder no-such-folder does not exist"),
        (["--json", "/"], "--json: / is a folder; name a file"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line_before_anything_starts(
    refused: Any, arguments: list[object], line: str
) -> None:
    assert refused(*arguments).startswith(line)


def test_columns_that_are_not_named_are_asked_for(refused: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("when,what\n2020-01-01,a\n")
    asks = f"which column of {file}? name it"
    assert refused("--input", file, "--text", "what") == f"--time: {asks}"
    assert refused("--input", file, "--time", "when") == f"--text: {asks}"


def test_a_wrong_column_is_told_before_anything_starts(refused: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("when,what\n2020-01-01,a\n")
    line = refused("--input", file, "--time", "when", "--text", "wat")
    assert line == f"--text: {file} has no column 'wat'; it has when, what"


def test_a_log_that_is_another_file_is_left_alone(refused: Any, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine\n")
    assert "is not a decision log" in refused("--log", file)
    assert file.read_text() == "mine\n"


def test_help_imports_neither_spark_nor_a_plotting_library() -> None:
    program = (
        "import sys, elastream.cli.demo.command, elastream_lab.cli.bench;"
        "print([m for m in ('pyspark', 'pyarrow', 'matplotlib', 'rich.live') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_a_summary_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    write_summary(file, {"rows": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_summary(file, {"rows": float("nan")})
    assert json.loads(file.read_text()) == {"rows": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
