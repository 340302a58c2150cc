"""What commands do when standard input or output is closed, full, or never ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROBLEM = json.dumps(
    {
        "work": [3, 1, 2, 4],
        "state": [10, 5, 0, 7],
        "current": [[0, 3], [3, 4]],
        "nodes": 3,
        "tau": 1,
    }
)


def run(arguments: str, streams: str, text: str = PROBLEM) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell that sends its streams elsewhere."""
    command = f"exec '{sys.executable}' -m elastream.cli.main {arguments} {streams}"
    return subprocess.run(
        ["sh", "-c", command], input=text, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("arguments", ["plan single-step -", "plan resilient --help", "--version"])
def test_a_closed_standard_output_is_no_success(arguments: str) -> None:
    ran = run(arguments, ">&-")
    assert ran.returncode == 2
    assert ran.stderr.startswith("elastream: standard output is closed; ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", ["plan single-step -", "plan resilient --help", "--version"])
def test_a_full_standard_output_is_no_success(arguments: str) -> None:
    ran = run(arguments, "> /dev/full")
    assert ran.returncode == 1
    assert ran.stderr == "elastream: standard output cannot be written: No space left on device\n"


def test_a_closed_standard_input_is_one_line() -> None:
    ran = run("plan single-step -", "<&-")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "elastream: -: standard input is closed; give a file\n"


def test_a_file_that_never_ends_is_not_read_to_its_end() -> None:
    ran = run("plan single-step /dev/zero", "")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "elastream: /dev/zero: is larger than 64 MiB; no problem is\n"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_what_cannot_be_written_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    line = {"v": 2, "at_ms": 0, "query": "q", "batch": 1, "kind": "hold", "executors": 2}
    report = {**line, "utilisation": 0.7, "reason": "\ud800 as it is", "figures": {}}
    (tmp_path / "log").write_text(json.dumps(report) + "\n")
    ran = run(f"log {tmp_path / 'log'}", "")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert r"\ud800 as it is" in ran.stdout
