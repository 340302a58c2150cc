"""The demo end to end, shortened: a process of its own, for it has a session of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.processes import alive, descendants

from elastream import read_decisions

COMMAND = [sys.executable, "-m", "elastream.cli.main", "demo"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("demo")
    settings = ["--page", "0", "--json", "summary.json", "--log", "decisions.jsonl"]
    done = subprocess.run(
        [*COMMAND, *settings], cwd=folder, capture_output=True, text=True, timeout=1800
    )
    return done, folder


def test_the_demo_scales_out_and_in_and_is_exact(
    ran: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, folder = ran
    assert (done.returncode, done.stderr) == (0, "")
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert summary["exact"] is True
    assert "error" not in summary
    assert summary["rows"] > 10_000
    assert summary["executors"] == {"min": 1, "max": 2, "final": 1}
    response = summary["response_ms"]
    assert 0 < response["median"] <= response["p99"] <= response["worst"]


def test_the_demo_says_that_work_is_slept_and_where_its_page_and_picture_are(
    ran: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, folder = ran
    assert "sleeps" in done.stdout
    assert "exact against a batch count" in done.stdout
    assert "shown on http://127.0.0.1:" in done.stdout
    assert "drawn: elastream-demo.png" in done.stdout
    assert (folder / "elastream-demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_leaves_a_log_of_decisions(
    ran: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    decisions = list(read_decisions(ran[1] / "decisions.jsonl"))
    assert decisions[0].kind == "attach"
    assert decisions[0].reason.endswith("planner free-step")
    assert decisions[-1].kind == "detach"
    assert {"hold", "scale-out", "scale-in", "done"} <= {decision.kind for decision in decisions}


@pytest.mark.slow
def test_ctrl_c_ends_everything_and_says_so_in_a_line(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as said:
        demo = subprocess.Popen(
            [*COMMAND, "--json", "summary.json"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("warming"):
                break
        family = descendants(demo.pid)
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=600)
    assert demo.returncode == 130
    assert (tmp_path / "said").read_text().splitlines() == [
        "elastream: interrupted; what was started has ended"
    ]
    assert any("executor-id" in line for line in family.values())
    assert alive(family) == []
    assert json.loads((tmp_path / "summary.json").read_text())["error"] == "interrupted"
