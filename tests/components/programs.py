"""Programs of the component tests, each a process that answers one line with one line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.components.sparks import environment

from elastream import Decision, read_decisions

__all__ = [
    "Application",
    "ClusterApplication",
    "Program",
    "Stream",
    "application",
    "cluster_application",
    "committed",
    "outside",
]


class Program:
    """A running program."""

    def __init__(
        self,
        module: str,
        argument: str,
        log: Path,
        spark: Path | None = None,
        before: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``before``: what starts the program, where it is not this process."""
        self._log = log
        self._lock = threading.Lock()
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                [*before, sys.executable, "-m", module, argument],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**environment(spark), **(environ or {})},
                text=True,
                start_new_session=True,
            )

    def ask(self, what: str, **more: Any) -> Any:
        """Ask, and wait for the answer."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"ask": what, **more}) + "\n")
            self._process.stdin.flush()
            return self.answer()

    def answer(self) -> Any:
        """Return what it says next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"it has ended: {self._log.read_text()[-3000:]}"
        return json.loads(line)

    def end(self) -> int:
        """Let it end by itself, and return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(300)
        self._close()
        return code

    def kill(self) -> None:
        """Kill it and all that came of it, as a machine would die."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Application(Program):
    """An elastic application: see :mod:`tests.components.application`."""

    def __init__(
        self, folder: Path, *, executors: int, policy: str, spark: Path | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        settings = {"folder": str(folder), "executors": executors, "policy": policy}
        module = "tests.components.application"
        super().__init__(module, json.dumps(settings), folder / "application.log", spark)
        assert self.answer() == "ready"

    @property
    def batches(self) -> list[dict[str, Any]]:
        """What its batches did."""
        lines = (self._folder / "batches.jsonl").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def decisions(self) -> list[Decision]:
        """What its loop decided."""
        return list(read_decisions(self._folder / "decisions.jsonl"))

    def decided(self, *kinds: str) -> list[Decision]:
        """Return those decisions that are of some kinds."""
        return [decision for decision in self.decisions if decision.kind in kinds]


@contextmanager
def application(
    folder: Path, *, executors: int = 2, policy: str = "by hand", spark: Path | None = None
) -> Iterator[Application]:
    """Start an application, and end it with all its processes."""
    started = Application(folder, executors=executors, policy=policy, spark=spark)
    try:
        yield started
    finally:
        started.kill()


@contextmanager
def outside(folder: Path, servers: str, *, spark: Path | None = None) -> Iterator[Program]:
    """Start what is around applications: see :mod:`tests.components.outside`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = Program("tests.components.outside", servers, folder / "outside.log", spark)
    try:
        yield program
    finally:
        program.kill()


class ClusterApplication(Program):
    """An elastic application on a master: see :mod:`tests.components.cluster_application`."""


@contextmanager
def cluster_application(
    folder: Path, master: str, conf: Mapping[str, str], *, environ: Mapping[str, str] | None = None
) -> Iterator[ClusterApplication]:
    """Start an application on a master, and end it; who runs its executors ends those."""
    report = {"master": master, "conf": dict(conf), "checkpoint": str(folder / "checkpoint")}
    started = ClusterApplication(
        "tests.components.cluster_application",
        json.dumps(report),
        folder / "application.log",
        environ=environ,
    )
    try:
        assert started.answer() == "ready"
        yield started
    finally:
        started.kill()


class Stream:
    """Rows that come all the time, and in bursts; row i has the value i."""

    def __init__(self, outside: Program, topics: list[str], rows_per_s: int) -> None:
        self._outside = outside
        self._topics = topics
        self._rows = rows_per_s
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._flow, daemon=True)
        self.sent = 0

    def burst(self, rows: int) -> None:
        """Send many at once."""
        with self._lock:
            self._outside.ask("send", topics=self._topics, first=self.sent, rows=rows)
            self.sent += rows

    def again(self, rows: int) -> None:
        """Send the first rows once more; they do not count."""
        with self._lock:
            self._outside.ask("send", topics=self._topics, first=0, rows=rows)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more."""
        self._end.set()
        self._thread.join()

    def _flow(self) -> None:
        while not self._end.wait(1.0):
            self.burst(self._rows)


def committed(checkpoint: Path) -> dict[str, dict[str, int]]:
    """Return up to which offsets the committed batches of a query have read its topics."""
    commits = checkpoint / "commits"
    if not commits.exists():
        return {}
    done = [int(file.name) for file in commits.iterdir() if file.name.isdigit()]
    if not done:
        return {}
    lines = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()
    offsets: dict[str, dict[str, int]] = json.loads(lines[2])
    return offsets
