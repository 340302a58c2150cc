from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elastream_lab.cli.taxi import taxi


@pytest.fixture
def refused(refusing: Any) -> Any:  # arguments -> the one line
    return refusing(taxi, "elastream.spark.sessions.embedded_cluster.embedded")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--seconds", 0], "--seconds: 0 is not above 0"),
        (["--minutes", "nan"], "--minutes: nan is not finite"),
        (["--trips-a-minute", -1], "--trips-a-minute: -1.0 is negative"),
        (["--executors", 0], "--executors: 0 is too small; the least is 1"),
        (["--executors", 99], "--executors: 99 is too large; the most is 16"),
        (["--partitions", 0], "--partitions: 0 is too small"),
        (["--service-us", 1e9], "--service-us: 1e+09 is above a second a trip"),
        (["--seed", -1], "--seed: -1 is too small"),
        (["--act"], "--act: means something only with --replicate"),
        (["--log", "a.jsonl"], "--log: means something only with --replicate"),
        (
            ["--replicate", "--response-ms", 0],
            "--response-ms: 0 is not positive; give more than zero",
        ),
        (["--replicate", "--period-s", 0], "--period-s: 0 is not positive; give more than zero"),
        (
            ["--input", "no-such.csv"],
            "--input: no-such.csv cannot be read: No such file or directory",
        ),
        (["--out", "no-such-folder/a"], "--out: the folder no-such-folder does not exist"),
        (["--json", "/"], "--json: / is a folder; name a file"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line_before_anything_starts(
    refused: Any, arguments: list[object], line: str
) -> None:
    assert refused(*arguments).startswith(line)


def test_a_file_of_another_kind_is_reported_before_anything_starts(
    refused: Any, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("when,what\n2020-01-01,a\n")
    line = refused("--input", file)
    assert line.startswith(f"--input: {file} has no trip; its first line has 2 columns")
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    assert refused("--input", binary) == f"--input: {binary} cannot be read: it is not text"


def test_help_imports_neither_spark_nor_a_plotting_library() -> None:
    program = (
        "import sys, elastream_lab.cli.taxi, elastream_lab.cli.study.replication;"
        "print([m for m in ('pyspark', 'pyarrow', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
