from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from elastream.cli.main import main


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("something was started")

    monkeypatch.setattr("elastream.spark.sessions.embedded_cluster.embedded", started)


@pytest.mark.parametrize("command", [["traffic"], ["measure", "--out", "problem.json"]])
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--substreams", "0"], "--substreams: 0 is too small; the least is 1"),
        (["--partitions", "65"], "--partitions: 65 is too large; the most is 64"),
        (["--executors", "0"], "--executors: 0 is too small; the least is 1"),
        (["--service-us", "1e7"], "--service-us: 1e+07 is above a second a packet"),
        (["--seed", "-1"], "--seed: -1 is too small"),
        (["--size", "bytes"], "--size: names a column of --input, which is not given"),
        (["--input", "a.csv", "--time", "t"], "--source: which column of a.csv? name it"),
        (
            ["--input", "none.csv", "--time", "t", "--source", "s", "--destination", "d"],
            "--input: none.csv cannot be read: No such file or directory",
        ),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line_before_anything_starts(
    command: list[str],
    arguments: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command, *arguments]) == 2
    captured = capsys.readouterr().err.splitlines()
    assert len(captured) == 1
    assert captured[0].startswith(f"elastream: {line}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        ({"status": "infeasible"}, "has no list of nodes in its field allocation"),
        ({"allocation": []}, "has no list of nodes in its field allocation"),
        ({"allocation": [0, -1]}, "allocation[1]: -1 is too small"),
        ({"allocation": [0, "x"]}, "allocation[1]: 'x' is not a whole number"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(
    plan: dict[str, object], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    assert main(["traffic", "--plan", str(file)]) == 2
    assert line in capsys.readouterr().err


def test_a_target_that_cannot_be_written_is_reported_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", "--out", str(tmp_path / "none" / "problem.json")]) == 2
    assert main(["measure", "--out", str(tmp_path), "--batches", "5"]) == 2
    assert main(["measure", "--out", str(tmp_path / "p.json"), "--batches", "0"]) == 2
    assert capsys.readouterr().err.count("elastream: --") == 3


def test_the_study_on_spark_refuses_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = ["study", "latency", "--on-spark"]
    assert main([*study, "--repeats", "0"]) == 2
    assert main([*study, "--methods", "rod,best"]) == 2
    assert main([*study, "--methods", "llf,stock"]) == 2
    assert main([*study, "--seconds", "1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == [
        "--repeats",
        "--methods",
        "--methods",
        "--seconds",
    ]


def test_help_imports_neither_spark_nor_arrow() -> None:
    program = (
        "import sys, elastream_lab.cli.measure, elastream_lab.cli.traffic;"
        "print([m for m in ('pyspark', 'pyarrow', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
