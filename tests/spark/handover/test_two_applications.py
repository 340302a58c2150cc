"""Two driver processes, each with executors of its own: the commands of ``handover``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.spark.handover.handed_queries import CLOCK, readings
from tests.spark.handover.test_windowed import Pace, Result, pairs, row_windows, sums, written

from elastream.control.handover.ledger import read_notes

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).parents[3]
PATIENCE_S = 400.0


class Applications:
    def __init__(self, folder: Path) -> None:
        self.folder, self.pace = folder, Pace(folder)
        self.running: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "elastream.cli.main", "handover", *arguments]
        environment = os.environ | {CLOCK: str(self.pace.path), "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE
        )
        self.running.append(process)
        return process

    def kinds(self, side: str) -> set[str]:
        log = self.folder / side / "handover.jsonl"
        return {note.kind for note in read_notes(log)} if log.exists() else set()

    def put_out(self) -> Counter[Result]:
        return written(self.folder / "origin/results") + written(self.folder / "target/results")

    def await_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline
            self.pace.follow(self.folder / "origin/checkpoint/commits")
            time.sleep(0.3)


@pytest.fixture
def applications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Applications]:
    run = Applications(tmp_path)
    monkeypatch.setenv(CLOCK, str(run.pace.path))
    yield run
    for process in run.running:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in run.running:
        process.wait(120)
        assert process.stdout is not None
        process.stdout.close()


EXPECTED: dict[str, Callable[[], Counter[Result]]] = {
    "sums": lambda: sums(readings(), 3000, 1000),
    "q1": lambda: pairs(readings(), 800),
    "q2": lambda: row_windows(readings(), 5, 2),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_two_applications_together_put_out_what_one_would(
    applications: Applications, name: str
) -> None:
    query = f"tests.spark.handover.handed_queries:{name}"
    origin = applications.start("serve", query, "--folder", "origin", "--patience", "300")
    assert origin.stdout is not None
    address = origin.stdout.readline().split()[2].rstrip(",")
    applications.await_until(lambda: bool(written(applications.folder / "origin/results")))
    applications.start(
        "join", query, address,
        "--folder", "target", "--token-file", "origin/token", "--patience", "300",
        "--partitions", "3",
    )  # fmt: skip
    applications.await_until(lambda: {"commit", "finish"} <= applications.kinds("origin"))
    applications.await_until(lambda: "own" in applications.kinds("target"))
    applications.pace.go(3_600_000)
    expected = EXPECTED[name]()
    applications.await_until(lambda: applications.put_out() >= expected)
    assert applications.put_out() == expected
    assert origin.wait(120) == 0
