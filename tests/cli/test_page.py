"""``elastream page`` as a process of its own: it ends by Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.page.runs import logged

from elastream.cli.page import with_port

COMMAND = [sys.executable, "-m", "elastream.cli.main", "page"]


def test_a_log_is_shown_until_ctrl_c(tmp_path: Path) -> None:
    logged(tmp_path / "decisions.jsonl", seconds=30)
    with (tmp_path / "said").open("w") as said:
        page = subprocess.Popen(
            [*COMMAND, "decisions.jsonl", "--port", "0"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        assert page.stdout is not None
        with page.stdout:
            line = page.stdout.readline()
            place = urlsplit(next(word for word in line.split() if word.startswith("http")))
            connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
            connection.request("GET", "/metrics")
            assert b"elastream_executors" in connection.getresponse().read()
            connection.close()
            page.send_signal(signal.SIGINT)
            try:
                assert page.wait(60) == 130
            finally:
                page.kill()
                page.wait()
    assert (tmp_path / "said").read_text() == (
        "elastream: interrupted; what was started has ended\n"
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["demo", "--page"], ["demo", "--page", "4060"]),
        (["demo", "--page", "--log", "f"], ["demo", "--page", "4060", "--log", "f"]),
        (["demo", "--page", "80"], ["demo", "--page", "80"]),
        (["demo", "--page=80"], ["demo", "--page=80"]),
        (["run", "--", "app.py", "--page"], ["run", "--", "app.py", "--page"]),
        ([], []),
    ],
)
def test_a_page_without_a_port_is_on_the_usual_one(given: list[str], meant: list[str]) -> None:
    assert with_port(given) == meant
