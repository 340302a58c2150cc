"""A run that is killed, not asked to end, leaves nothing that passes for a result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import numpy as np
import pytest

from elastream.cli.main import main

pytestmark = pytest.mark.slow

ELASTREAM = str(Path(sys.executable).with_name("elastream"))
_PATIENCE_S = 600.0
_GLANCE_S = 0.02


def killed_when(there: Callable[[], bool], *arguments: str) -> None:
    """Start a command and kill it, and what it started, at the first glance that sees ``there``."""
    command = [ELASTREAM, *arguments]
    process = subprocess.Popen(command, start_new_session=True, stdout=DEVNULL, stderr=DEVNULL)
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while not there():
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(_GLANCE_S)
        assert process.poll() is None, "it ended before it could be killed"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def values_problem() -> dict[str, object]:
    random = np.random.default_rng(1)
    sizes = list(range(8, 17))
    matrix = random.exponential(size=(9, 9))
    matrix /= matrix.sum(axis=1, keepdims=True)
    work, state = random.integers(50, 150, (2, 64)).tolist()
    chain = {"sizes": sizes, "matrix": matrix.tolist(), "gamma": 0.8}
    return {"work": work, "state": state, "tau": 0.4, "chain": chain}


def test_values_that_were_killed_are_none_and_go_on_to_the_same_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, killed, whole = (tmp_path / name for name in ("p.json", "killed", "whole"))
    problem.write_text(json.dumps(values_problem()))
    options = ["values", "build", str(problem), "--pool", "300", "--rounds", "4", "--out"]
    rounds = tmp_path / "killed.rounds"
    killed_when(rounds.exists, *options, str(killed))
    assert not killed.exists()
    assert main([*options, str(killed)]) == 0
    assert "going on after round" in capsys.readouterr().err
    assert not rounds.exists()
    assert main([*options, str(whole)]) == 0
    assert killed.read_bytes() == whole.read_bytes()


def test_a_trace_that_was_killed_is_none_and_can_be_built_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    posts, out = tmp_path / "posts.jsonl", tmp_path / "trace"
    rows = ({"time": 1583020800 + 60 * n, "text": f"word{n % 97}"} for n in range(20_000))
    posts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["trace", "build", "--input", str(posts), "--time", "time", "--text", "text"]
    options += ["--out", str(out)]
    killed_when((tmp_path / ".trace.unfinished" / "tasks").exists, *options)
    assert not out.exists()
    assert main(["trace", "nodes", str(out)]) == 2
    assert "is no trace, or one that was not finished" in capsys.readouterr().err
    built = subprocess.run([ELASTREAM, *options], capture_output=True, check=True)
    assert b"20,000 rows read, bad ones: none" in built.stdout
    assert main(["trace", "nodes", str(out)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["posts.jsonl", "trace"]
