"""PySpark's own examples of stateful streams, as they are shipped, scaled while they run."""

from __future__ import annotations

import re
import signal
import socketserver
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest
from tests.documentation import ROOT
from tests.launch.programs import ELASTREAM, by_elastream, environment
from tests.spark.running_query import PATIENCE_S, until

from elastream import read_decisions

pytestmark = pytest.mark.slow

EXAMPLES = Path(pyspark.__file__).parent / "examples/src/main/python/sql/streaming"
WORDS = ["the", "state", "of", "a", "stream", "the", "least", "of", "the", "state"]
LINE_S = 0.3

Row = list[str]
Batches = list[list[Row]]


class Lines(socketserver.ThreadingTCPServer):
    """Sends lines to who connects, until it is stopped."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Sender)
        self.enough = threading.Event()
        self.sent: Counter[str] = Counter()


class _Sender(socketserver.BaseRequestHandler):
    server: Lines

    def handle(self) -> None:
        with suppress(OSError):
            while not self.server.enough.wait(LINE_S):
                self.request.sendall(f"{' '.join(WORDS)}\n".encode())
                self.server.sent.update(WORDS)
            while self.request.recv(1):
                pass


@contextmanager
def lines() -> Iterator[Lines]:
    with Lines() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def batches(said: str) -> Batches:
    """The rows of each whole table on the console, their heads left out."""
    said = said[: said.rfind("+\n\n") + 1]
    tables = re.split(r"^Batch: \d+$", said, flags=re.MULTILINE)[1:]
    rows = (re.findall(r"^\|(.*)\|$", table, re.MULTILINE)[1:] for table in tables)
    return [[[cell.strip() for cell in row.split("|")] for row in table] for table in rows]


def of_the_last(found: Batches) -> Counter[str]:
    """The whole result, every time."""
    return Counter({word: int(number) for word, number in found[-1]} if found else {})


def of_windows(found: Batches) -> Counter[str]:
    """The whole result, every time: a word is in two windows."""
    total: Counter[str] = Counter()
    for _, word, number in found[-1] if found else ():
        total[word] += int(number)
    return Counter({word: number // 2 for word, number in total.items()})


def of_the_ended(found: Batches) -> Counter[str]:
    """Sessions that are reported once, when they have ended."""
    total: Counter[str] = Counter()
    for rows in found:
        for word, number, *_ in rows:
            total[word] += int(number)
    return total


@pytest.mark.parametrize(
    ("example", "arguments", "counts"),
    [
        ("structured_network_wordcount.py", "", of_the_last),
        ("structured_network_wordcount_windowed.py", "100000 50000", of_windows),
        ("structured_network_wordcount_session_window.py", "", of_the_ended),
    ],
)
def test_an_example_is_scaled_while_it_runs_and_says_what_is_right(
    example: str, arguments: str, counts: Callable[[Batches], Counter[str]], tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 4\n")
    log, console, errors = (tmp_path / name for name in ("decisions.jsonl", "console", "errors"))
    options = f"--max-executors 2 --goal tests.launch.goals:eager --log {log}".split()
    with lines() as server, console.open("w") as output, errors.open("w") as faults:
        program = [str(EXAMPLES / example), "127.0.0.1", str(server.server_address[1])]
        process = subprocess.Popen(
            [*ELASTREAM, "run", *options, *program, *arguments.split()],
            cwd=ROOT,
            env=environment({"SPARK_CONF_DIR": str(tmp_path)}),
            stdout=output,
            stderr=faults,
        )
        try:
            until(lambda: process.poll() is not None or scaled(log), "it has scaled out")
            server.enough.set()
            until(
                lambda: (
                    process.poll() is not None
                    or counts(batches(console.read_text())) == server.sent
                ),
                "all is counted",
            )
            assert process.poll() is None, errors.read_text()[-2000:]
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == -signal.SIGINT
        finally:
            process.kill()
            process.wait()
    assert counts(batches(console.read_text())) == server.sent
    last = [each.kind for each in read_decisions(log)][-1]
    assert last == "detach"


def scaled(log: Path) -> bool:
    if not log.exists() or not log.stat().st_size:
        return False
    return any(each.kind == "done" and each.executors == 2 for each in read_decisions(log))


def test_an_example_that_spark_itself_refuses_fails_as_it_does(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    example = EXAMPLES / "structured_sessionization.py"
    ran = by_elastream(example, "127.0.0.1", "1", options=f"--log {log}")
    assert ran.returncode == 1
    assert "AnalysisException: [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION]" in ran.stderr
    assert [each.kind for each in read_decisions(log)] == ["attach", "detach"]
