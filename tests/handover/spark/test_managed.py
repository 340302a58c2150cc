"""The coordinator over real applications: it reads their load, decides, acts and reports."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.handover.spark.applications import Applications
from tests.handover.spark.expected import sums
from tests.handover.spark.handed_queries import CLOCK, readings
from tests.handover.spark.handing import ALL_MS
from tests.spark.processes import alive, descendants

from elastream.handover.commands.managed import load_from_log
from elastream.handover.ledger import RecordFile
from elastream.model.errors import ProblemError

pytestmark = [pytest.mark.slow, pytest.mark.spark]

LITTLE = 1e-6
"""A mark that any query is above, however fast the machine is."""


class Coordinator:
    """``elastream handover manage`` over ``a``, which runs, and ``b``, which does not yet."""

    def __init__(self, run: Applications) -> None:
        self._run, self._folder = run, run.folder

    def write(self, **marks: float) -> None:
        run, elastream = self._run, [sys.executable, "-m", "elastream.cli.main", "handover"]
        there = ["--folder", "target", "--partitions", "3", "--log", "b.jsonl", "--patience", "600"]
        join = [*elastream, "join", run.query, run.address, "--token-file", "origin/token", *there]
        door = {"address": run.address, "token_file": "origin/token", "folder": "origin"}
        window = {"kind": "time", "length": 3000, "slide": 1000}
        content: dict[str, Any] = {
            "applications": [
                {
                    "name": "a",
                    "log": "a.jsonl",
                    "queries": {"sums": window},
                    "doors": {"sums": door},
                },
                {
                    "name": "b",
                    "log": "b.jsonl",
                    "executors": 10**9,
                    "joins": {"sums": {"command": join, "folder": "target"}},
                    "resumes": {
                        "sums": {
                            "command": [*elastream, "serve", run.query, *there],
                            "folder": "target",
                        }
                    },
                },
            ],
            "bytes_per_s": 1e12,
            **marks,
        }
        (self._folder / "manage.json").write_text(json.dumps(content))

    def look(self, *options: str) -> str:
        """Let it look once, and return what it shows; the streams' time goes on meanwhile."""
        command = [sys.executable, "-m", "elastream.cli.main", "handover", "manage"]
        looking = subprocess.Popen(
            [*command, "manage.json", *options],
            cwd=self._folder,
            env=self._run.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._run.await_until(lambda: looking.poll() is not None)
        ended, _ = looking.communicate()
        assert looking.returncode == 0, ended
        return ended


@contextmanager
def managed(folder: Path) -> Iterator[tuple[Applications, Coordinator]]:
    """Run ``a`` until its log shows what it costs; end what the coordinator has started too."""
    run = Applications(folder, "sums", master=None)
    try:
        run.serve("--log", "a.jsonl")
        run.await_until(lambda: is_measured(folder / "a.jsonl") and bool(run.put_out("origin")))
        yield run, Coordinator(run)
    finally:
        run.close()
        started = folder / "target" / "started.pid"
        if started.exists():
            end(int(started.read_text()))


def is_measured(log: Path) -> bool:
    """Whether the log shows what the query costs; its first sample may know nothing yet."""
    try:
        return bool(load_from_log("it", log, {"sums": None}).queries)
    except ProblemError:
        return False


def started(text: str, folder: Path) -> None:
    found = re.search(r"started process (\d+)", text)
    assert found is not None
    (folder / "target" / "started.pid").write_text(found[1])


def end(pid: int) -> None:
    family = {pid: "started by the coordinator", **descendants(pid)}
    os.kill(pid, signal.SIGTERM)
    assert not alive(family)


@pytest.fixture(autouse=True)
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLOCK, str(tmp_path / "clock"))


def test_it_hands_a_query_over_between_two_applications(tmp_path: Path) -> None:
    with managed(tmp_path) as (run, coordinator):
        coordinator.write(restart_s=1000, high=LITTLE, target=LITTLE)
        assert coordinator.look().startswith("hand over 'sums' from 'a' to 'b'")
        assert not (tmp_path / "target").exists()
        report = coordinator.look("--act")
        started(report, tmp_path)
        assert "the target owns its windows" in report
        assert report.endswith("the origin has put out its last window of 'sums'\n")
        run.await_until(lambda: is_measured(tmp_path / "b.jsonl"))
        run.check_whole(sums(readings(), 3000, 1000))
        assert not is_measured(tmp_path / "a.jsonl")  # it has ended
        coordinator.write(restart_s=1000, high=10**9, target=10**9)
        assert coordinator.look().startswith("nothing to do: a 0%, b ")


def test_it_moves_a_query_with_its_state_where_that_is_sooner(tmp_path: Path) -> None:
    with managed(tmp_path) as (run, coordinator):
        coordinator.write(restart_s=0, high=LITTLE, target=LITTLE)
        report = coordinator.look("--act")
        started(report, tmp_path)
        assert report.startswith("migrate 'sums' from 'a' to 'b': a handover takes 2.5 s")
        assert re.search(r"\d+ bytes in \d+ files are in target\n", report)
        assert re.search(r"'sums' goes on there; it paused for \d+\.\d s\n", report)
        assert RecordFile(tmp_path / "origin" / "record.json").read().state == "yielded"  # type: ignore[union-attr]
        run.pace.go(ALL_MS)
        expected = sums(readings(), 3000, 1000)
        run.await_until(lambda: run.put_out("origin") + run.put_out("target") >= expected.sure)
        assert run.put_out("origin") + run.put_out("target") <= expected.possible
        assert run.put_out("target")
        again = run.serve()
        run.await_until(lambda: again.poll() is not None, paced=False)
        assert again.returncode == 2
        assert "left to a coordinator" in run.said("serve")
