from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elastream.cli.main import main

STEP = {
    "work": [3, 1, 2, 4],
    "state": [10, 5, 6, 7],
    "current": [[0, 3], [3, 4]],
    "nodes": 3,
    "tau": 0.4,
}


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(STEP))

    def run(kind: str, *options: str) -> tuple[int, str, str]:
        code = main(["plan", kind, str(file), *options])
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("kind", ["single-step", "free-step"])
def test_a_bandwidth_adds_a_forecast_and_changes_nothing_else(plan: Any, kind: str) -> None:
    bare = json.loads(plan(kind)[1])
    code, out, err = plan(kind, "--bytes-per-s", "4")
    found = json.loads(out)
    assert (code, err) == (0, "")
    forecast = found.pop("forecast")
    assert found == bare
    transfer = {"from": 0, "to": 2, "state": 6, "parts": [{"task": 2, "state": 6}]}
    phases = [{"seconds": 1.5, "transfers": [transfer]}]
    assert forecast == {
        "seconds": 1.5,
        "batches": [{"seconds": 1.5, "tasks": [2], "phases": phases}],
    }


def test_each_node_may_have_a_link_of_its_own(plan: Any) -> None:
    out = plan("free-step", "--bytes-per-s", "1e3,4,2.5")[1]
    assert json.loads(out)["forecast"]["seconds"] == 2.4


@pytest.mark.parametrize("kind", ["single-step", "free-step"])
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--bytes-per-s", "fast"], "--bytes-per-s: 'fast' is not a number"),
        (["--bytes-per-s", "0"], "--bytes-per-s: 0 is not positive"),
        (["--bytes-per-s", "1,2"], "--bytes-per-s: has 2 entries where 3 are needed"),
        (["--moves-per-batch", "1"], "--moves-per-batch: means something only with --bytes-per-s"),
        (["--bytes-per-batch", "9"], "--bytes-per-batch: means something only with --bytes-per-s"),
        (["--bytes-per-s", "1", "--moves-per-batch", "0"], "Invalid value for '--moves-per-batch'"),
    ],
)
def test_a_wrong_option_is_one_line(plan: Any, kind: str, options: list[str], line: str) -> None:
    code, out, err = plan(kind, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"elastream: {line}")
