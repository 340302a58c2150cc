from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from elastream.cli.main import main
from elastream.foresight.traces.folder import commit, write_nodes

HOURS, TASKS = 24, 8


def trace(folder: Path, seed: int, *, patterns: int | None = None) -> str:
    random = np.random.default_rng(seed)
    rate = 50 + 30 * np.sin(np.arange(HOURS) / 12 * np.pi)
    work = random.poisson(rate[:, None] * np.ones(TASKS))
    start = datetime(2020, 3, 1, tzinfo=UTC)
    (folder / "tasks").mkdir(parents=True)
    columns = {
        "time": [start + timedelta(hours=hour) for hour in range(HOURS) for _ in range(TASKS)],
        "task": list(range(TASKS)) * HOURS,
        "work": work.ravel(),
        "keys": work.ravel(),
        "state_bytes": work.cumsum(axis=0).ravel(),
    }
    parquet.write_table(pa.table(columns), folder / "tasks" / "part.parquet")
    nodes = np.rint(2 + (rate - rate.min()) / np.ptp(rate) * 2).astype(int).tolist()
    settings = {"text": "text", "patterns": patterns, "window_s": patterns and 7200}
    commit(folder, {"settings": settings, "report": {"intervals": HOURS, "tasks": TASKS}})
    write_nodes(folder, {"min": 2, "max": 4, "nodes": nodes})
    return str(folder)


def test_one_command_makes_the_figures_of_both_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, pairs = trace(tmp_path / "words", 1), trace(tmp_path / "pairs", 2, patterns=2)
    before = trace(tmp_path / "words-before", 3), trace(tmp_path / "pairs-before", 4, patterns=2)
    report, picture = tmp_path / "cost.json", tmp_path / "cost.png"
    options = ["--tasks", "8", "--seeds", "2", "--figures", "gamma,tau", "--json", str(report)]
    options += ["--trace", words, "--trace", pairs, "--train", before[0], "--train", before[1]]
    assert main(["study", "migration-cost", *options, "--picture", str(picture)]) == 0
    figures = json.loads(report.read_text())
    assert len(figures) == 2 * (4 + 1) + 1
    of_loads = {figure["data"].split(",")[0] for figure in figures[:-1]}
    assert of_loads == {
        "word count of words after words-before",
        "counts of patterns of up to 2 words in a window of 2h of pairs after pairs-before",
    }
    planners = {row["planner"] for row in figures[0]["rows"]}
    assert {"redist", "consistent hashing", "MTM-aware, directed"} <= planners
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "the papers say" in capsys.readouterr().out.lower().replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--figures", "9"],
            "--figures: there is no '9'; there are tau, ahead, tasks, gamma, windows, schedule",
        ),
        (["--train", "a", "--train", "b"], "--train: is given 2 times, --trace 1 times"),
        (["--train", "nowhere"], "nowhere: is not a trace"),
        (["--tasks", "5"], "--tasks: 5 does not divide the trace's 8"),
        (["--tasks", "8", "--train", "PAIRS"], "--train: holds the counts of patterns"),
        (["--tasks", "8", "--picture", "x.gif"], "--picture: x.gif does not end in"),
    ],
)
def test_wrong_input_is_one_line(
    options: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, pairs = trace(tmp_path / "words", 1), trace(tmp_path / "pairs", 2, patterns=2)
    reports = [pairs if option == "PAIRS" else option for option in options]
    assert main(["study", "migration-cost", "--trace", words, *reports]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert line in captured.err
    assert captured.err.count("\n") == 1
