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
    assert "is not a trace, or was not finished" in capsys.readouterr().err
    built = subprocess.run([ELASTREAM, *options], capture_output=True, check=True)
    assert b"20,000 rows read, bad ones: none" in built.stdout
    assert main(["trace", "nodes", str(out)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["posts.jsonl", "trace"]
