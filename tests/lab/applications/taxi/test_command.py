"""The taxi command end to end, shortened: a process of its own, for it has its own session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from elastream import read_decisions
from elastream_lab.applications.taxi.trips import MadeTrips, make_trips

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "elastream.cli.main", "taxi"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Two files replayed with the loop acting, under a bound that a busy machine keeps too."""
    folder = tmp_path_factory.mktemp("taxi")
    for number in (1, 2):
        make_trips(MadeTrips(seed=number, span_s=1800, trips_a_minute=20), folder / f"{number}.csv")
    files = ["--input", "1.csv", "--input", "2.csv", "--out", "rankings.jsonl"]
    files += ["--json", "summary.json", "--log", "decisions.jsonl"]
    settings = ["--seconds", "20", "--executors", "2", "--partitions", "4", "--service-us", "2000"]
    settings += ["--replicate", "--act", "--period-s", "5", "--response-ms", "60000"]
    done = subprocess.run(
        [*COMMAND, *settings, *files], cwd=folder, capture_output=True, text=True, timeout=1800
    )
    return done, folder


def test_every_minute_is_exact_while_replicas_are_steered(
    ran: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, folder = ran
    assert (done.returncode, done.stderr) == (0, "")
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert (summary["exact"], summary["trips"], summary["bad_lines"]) == (True, 1200, 0)
    assert summary["minutes"] == 59
    assert summary["reconfigurations"] >= 1
    assert "error" not in summary
    assert set(summary["replicas"]) == {"0", "1", "2"}
    assert "all exact against a plain computation" in done.stdout


def test_the_rankings_are_written_a_line_a_minute(
    ran: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    lines = [json.loads(line) for line in (ran[1] / "rankings.jsonl").read_text().splitlines()]
    assert len(lines) == 59
    assert [line["minute"] for line in lines] == sorted(line["minute"] for line in lines)
    best = lines[30]["best"]
    assert len(best) == 10
    assert [entry["trips"] for entry in best] == sorted((e["trips"] for e in best), reverse=True)


def test_the_decisions_tell_the_plan_and_its_end(
    ran: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    kinds = [decision.kind for decision in read_decisions(ran[1] / "decisions.jsonl")]
    assert kinds[0] == "attach"
    assert kinds[-1] == "detach"
    assert kinds.count("plan") >= 1
    assert "done" in kinds


def test_an_interrupt_ends_it_with_one_line_and_leaves_nothing_running(tmp_path: Path) -> None:
    settings = ["--seconds", "300", "--executors", "2", "--partitions", "2", "--json", "run.json"]
    running = subprocess.Popen(
        [*COMMAND, *settings, "--replicate"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    while not running.stdout.readline().startswith("replaying"):
        assert running.poll() is None, "it ended by itself"
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=600)
    assert running.returncode == 130
    assert said.splitlines()[0] == "elastream: interrupted; what was started has ended"
    assert json.loads((tmp_path / "run.json").read_text())["error"] == "interrupted"
    deadline = time.monotonic() + 600
    while group_is_there(running.pid):
        assert time.monotonic() < deadline, "a process of it is still there"
        time.sleep(0.2)


def group_is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
