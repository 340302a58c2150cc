from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elastream.cli.main import main
from elastream_lab.cli.bench import control


def test_the_loop_is_timed_at_the_sizes_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "control.json"
    command = ["bench", "control", "--sizes", "4x40x1, 6x60x3", "--no-jvm", "--json", str(file)]
    assert main(command) == 0
    first, second = json.loads(file.read_text())["rows"]
    assert (first["executors"], first["tasks"], first["queries"]) == (4, 40, 1)
    assert (second["executors"], second["tasks"], second["queries"]) == (6, 60, 3)
    for row in (first, second):
        assert set(row["step_ms"]) == {"median", "p99", "worst"}
        assert row["step_ms"]["median"] <= row["step_ms"]["p99"] <= row["step_ms"]["worst"]
        assert row["changes"] > 1, "out and in"
        assert all(plan.startswith(("optimal", "feasible")) for plan in row["plans"])
        assert len(row["plans"]) >= row["changes"]
        assert row["tasks_moved"] > 0
        assert 0 < row["decision_log_bytes_per_batch"] < 2000
        assert row["memory_mb"] > 0
    assert set(first["plans"]) == {"optimal"}
    shown = capsys.readouterr().out
    assert "calls into the JVM" not in shown
    assert str(first["tasks_moved"]) in shown


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--sizes", "10x200"],
            "--sizes: '10x200' must be EXECUTORSxTASKSxQUERIES or "
            "EXECUTORSxTASKSxQUERIESxOPERATORS",
        ),
        (
            ["--sizes", ""],
            "--sizes: '' must be EXECUTORSxTASKSxQUERIES or EXECUTORSxTASKSxQUERIESxOPERATORS",
        ),
        (["--sizes", "1x200x1"], "--sizes: 1x200x1: executors: 1 is too small; the least is 2"),
        (["--sizes", "9x3x4"], "--sizes: 9x3x4: tasks: 3 is too small; the least is 4"),
        (["--json", "no-such-folder/a.json"], "--json: the folder no-such-folder does not exist"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line_before_anything_starts(
    refusing: Any, arguments: list[str], line: str
) -> None:
    refused = refusing(control, "elastream_lab.benchmarks.control.simulated.measured_apart")
    assert refused(*arguments).startswith(line)
