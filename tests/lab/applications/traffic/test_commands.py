"""The commands on traffic end to end, each in a process and a session of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

pytestmark = pytest.mark.slow

SMALL = ["--substreams", "2"]


def elastream(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elastream.cli.main", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)


def test_what_is_measured_is_planned_and_what_is_planned_is_placed(tmp_path: Path) -> None:
    options = ["--batches", "4", "--out", "problem.json"]
    measured = elastream(tmp_path, "measure", *SMALL, *options)
    assert measured.returncode == 0, measured.stderr
    assert "8 pairs on 2 executors" in measured.stdout
    planned = elastream(tmp_path, "plan", "resilient", "--method", "rod", "problem.json")
    (tmp_path / "plan.json").write_text(planned.stdout)
    files = ["--plan", "plan.json", "--out", "results.parquet"]
    ran = elastream(tmp_path, "traffic", *SMALL, "--seconds", "20", *files)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "8 of 8 pairs are in place" in ran.stdout
    assert "exact against a batch computation" in ran.stdout
    results = parquet.read_table(tmp_path / "results.parquet")
    assert f"{results.num_rows:,} results" in ran.stdout


def test_a_plan_for_other_queries_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"allocation": [0, 1]}')
    ran = elastream(tmp_path, "traffic", *SMALL, "--seconds", "20", "--plan", "plan.json")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("elastream: plan: places 2 operators; the")


def test_the_study_on_spark_writes_the_contract(tmp_path: Path) -> None:
    options = ["--repeats", "1", "--seconds", "6", "--methods", "rod,stock"]
    ran = elastream(tmp_path, "study", "latency", "--on-spark", *options, "--json", "l.json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    summary, each = json.loads((tmp_path / "l.json").read_text())
    assert (summary["study"], summary["figure"]) == ("latency", "003 fig. 18 (on Spark)")
    assert [row["method"] for row in summary["rows"]] == ["rod", "stock"]
    for row in each["rows"]:
        assert row["worst_utilisation"] > 0
        assert 0 < row["median_batch_ms"] <= row["p99_batch_ms"]
