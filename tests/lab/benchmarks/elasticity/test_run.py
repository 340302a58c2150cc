"""The benchmark end to end, shortened, in a process of its own: each way has its own session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WAYS = ["fixed-max", "spark-dynamic", "elastream"]


def test_the_same_load_is_counted_exactly_under_every_way(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elastream.cli.main", "bench", "elasticity"]
    files = ["--json", "elasticity.json", "--picture", "elasticity.svg"]
    settings = ["--seconds", "20", "--max-executors", "2", "--ways", ",".join(WAYS)]
    done = subprocess.run(
        [*command, *settings, *files], cwd=tmp_path, capture_output=True, text=True, timeout=1800
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    summary = json.loads((tmp_path / "elasticity.json").read_text())
    runs = {run["way"]: run for run in summary["runs"]}
    assert list(runs) == WAYS
    assert all(run["exact"] for run in runs.values())
    assert len({run["rows"] for run in runs.values()}) == 1
    for run in runs.values():
        assert run["took_s"] <= run["executor_seconds"] <= 2 * run["took_s"] + 1
        assert 0 < run["response_ms"]["median"] <= run["response_ms"]["p99"]
        assert all(1 <= number <= 2 for _, number in run["executors"])
    most = runs["fixed-max"]
    assert most["executors"] == [[0.0, 2]]
    assert (most["changes"], most["executor_seconds"]) == (
        0,
        pytest.approx(2 * most["took_s"], 0.1),
    )
    assert "<svg" in (tmp_path / "elasticity.svg").read_text()
