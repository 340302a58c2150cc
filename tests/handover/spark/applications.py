"""The commands of ``elastream handover`` as processes that a test starts, kills and restarts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.handover.notes import owner_of, read_notes
from tests.handover.spark.conftest import NOT_CONNECTED
from tests.handover.spark.expected import Expected, Result
from tests.handover.spark.handed_queries import CLOCK
from tests.handover.spark.handing import ALL_MS, Pace, written
from tests.spark.processes import alive, descendants

from elastream.cli.exits import BAD_INPUT
from elastream.handover.ledger import Note

ROOT = Path(__file__).parents[3]
PATIENCE_S = 600.0
QUERIES = "tests.handover.spark.handed_queries"
_Started = tuple["subprocess.Popen[bytes]", int, Callable[[], object]]
"""The process, how much its command had said before, and what starts it again."""


@dataclass(frozen=True)
class Spark:
    """The Spark that a process runs on; without a word, the one of the tests."""

    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)


class Applications:
    """An origin and a target, each a driver process with a checkpoint of its own."""

    def __init__(
        self,
        folder: Path,
        query: str,
        master: str | None = "local[1]",
        *,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.pace = folder, Pace(folder)
        self.query = query if ":" in query else f"{QUERIES}:{query}"
        self._more = [] if master is None else ["--master", master]
        for name, value in (settings or {}).items():
            self._more += ["--conf", f"{name}={value}"]
        self.environment = {**os.environ, **(environment or {}), CLOCK: str(self.pace.path)}
        paths = (str(ROOT), self.environment.get("PYTHONPATH", ""))
        self.environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        self._running: list[subprocess.Popen[bytes]] = []
        self._started: dict[str, _Started] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    def serve(
        self, *more: str, patience_s: float = PATIENCE_S, on: Spark | None = None
    ) -> subprocess.Popen[bytes]:
        return self._start(
            "serve", self.query, "--folder", "origin", "--address", self.address,
            "--patience", str(patience_s), "--partitions", "2", *more, on=on,
        )  # fmt: skip

    def join(
        self,
        *more: str,
        query: str | None = None,
        on: Spark | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start the target, of another version of the query or on another Spark if so wished."""
        joined = self.query if query is None else f"{QUERIES}:{query}"
        return self._start(
            "join", joined, self.address, "--folder", "target",
            "--token-file", "origin/token", "--patience", str(PATIENCE_S), "--partitions", "3",
            *more, on=on,
        )  # fmt: skip

    def notes(self, side: str) -> list[Note]:
        log = self.folder / side / "handover.jsonl"
        return list(read_notes(log)) if log.exists() else []

    def kinds(self, side: str) -> set[str]:
        return {note.kind for note in self.notes(side)}

    def put_out(self, side: str) -> Counter[Result]:
        return written(self.folder / side / "results")

    def batches(self, side: str) -> int:
        return len(list((self.folder / side / "checkpoint/commits").glob("[0-9]*")))

    def await_until(self, holds: Callable[[], bool], *, paced: bool = True) -> None:
        """Wait; the streams' time goes on with the origin's batches, or not at all."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self._output()
            self._revive()
            if paced:
                self.pace.follow(self.folder / "origin/checkpoint")
            time.sleep(0.2)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End a driver and all that it started, as if its machine had died."""
        family = descendants(process.pid)
        process.kill()
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        assert not alive(family)

    def check_whole(self, expected: Expected) -> None:
        """Both together put out what is expected, and the last lines of the logs say who did."""
        self.await_until(lambda: "finish" in self.kinds("origin"))
        self.pace.go(ALL_MS)
        self.await_until(lambda: self.put_out("origin") + self.put_out("target") >= expected.sure)
        assert self.put_out("origin") + self.put_out("target") <= expected.possible
        for side in ("origin", "target"):
            last = self.notes(side)[-1]
            owners = {owner_of(result[0], last) for result in self.put_out(side)}
            assert owners == {side}

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait(120)

    def _start(self, *arguments: str, on: Spark | None = None) -> subprocess.Popen[bytes]:
        on = on or Spark()
        command = [on.python, "-m", "elastream.cli.main", "handover", *arguments]
        with (self.folder / f"{arguments[0]}.out").open("ab") as output:
            said = output.tell()
            process = subprocess.Popen(
                [*command, *self._more],
                cwd=self.folder,
                env={**self.environment, **on.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._running.append(process)
        self._started[arguments[0]] = process, said, lambda: self._start(*arguments, on=on)
        return process

    def _revive(self) -> None:
        """Start a side again that Spark has ended.

        Spark gives a Python worker ten seconds to connect, a limit that cannot be set, and a busy
        machine may keep it from that.
        """
        for command, (process, said, again) in tuple(self._started.items()):
            if process.poll() == BAD_INPUT and NOT_CONNECTED in self.said(command)[said:]:
                again()

    def said(self, command: str) -> str:
        """What the processes of a command have said so far."""
        return (self.folder / f"{command}.out").read_text()

    def _output(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("*.out"))]
