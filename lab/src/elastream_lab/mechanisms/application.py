"""A streaming application in a process of its own: a driver, its executors, one word count.

Started as ``python -m elastream_lab.mechanisms.application``, with what to run as JSON on standard
input. It runs until its standard input ends, then stops its query at a batch boundary and ends.
What its batches did goes to a file, a line each. :class:`Application` is the other side: it starts
one, stops it, and replaces it by another with a different number of executors.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from elastream.model.errors import SparkError
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.word_count import WordCount

_STOP_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """What application shall run."""

    job: WordCount
    executors: int
    executor_memory_mb: int
    observations: Path
    """Every batch is appended here."""
    config: tuple[tuple[str, str], ...] = ()
    """Further settings of the session."""
    master: str | None = None
    """The Spark master; ``None`` for an embedded cluster."""

    def as_json(self) -> str:
        """Return it for the other process."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> ApplicationSpec:
        """Return what :meth:`as_json` wrote."""
        fields = json.loads(text)
        job = fields["job"]
        job["recording"] = Recording(Path(job["recording"]["path"]))
        job["clock"] = ReplayClock(Path(job["clock"]["path"]))
        job["checkpoint"] = Path(job["checkpoint"])
        fields["job"] = WordCount(**job)
        fields["observations"] = Path(fields["observations"])
        fields["config"] = tuple((name, value) for name, value in fields["config"])
        return cls(**fields)


class Application:
    """A running application."""

    def __init__(self, spec: ApplicationSpec, log: Path) -> None:
        self._spec = spec
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
            )
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        self._input: IO[str] = self._process.stdin
        self._input.write(spec.as_json() + "\n")
        self._input.flush()

    def check(self) -> None:
        """Raise ``SparkError`` where the application has ended by itself."""
        if (code := self._process.poll()) is not None:
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise SparkError(f"the application ended with code {code}: {' '.join(last)}")

    def stop(self) -> None:
        """Let the running batch finish, and wait until the processes have ended."""
        self._input.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise SparkError(f"the application did not end in {_STOP_TIMEOUT_S:g} s") from None
        if self._process.returncode:
            self.check()

    def kill(self) -> None:
        """End it at once, in whatever state it is; harmless if it has ended."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def replaced(self, executors: int) -> Application:
        """Stop it, and return a new application that goes on with other executors."""
        self.stop()
        return Application(replace(self._spec, executors=executors), self._log)


def read_observations(path: Path) -> Iterator[BatchObservation]:
    """Yield what an application has written so far; a torn last line is passed over."""
    if not path.exists():
        return
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            fields = json.loads(line)
            tasks = tuple(
                TaskObservation(**{**task, "task": TaskId(*task["task"])})
                for task in fields["tasks"]
            )
            yield BatchObservation(**{**fields, "tasks": tasks})


def _main() -> None:
    import signal

    from elastream_lab.mechanisms.running_stream import RunningStream
    from elastream_lab.mechanisms.sessions import StreamCluster, stream_session

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us to handle
    signal.signal(signal.SIGTERM, _leave)
    spec = ApplicationSpec.from_json(sys.stdin.readline())
    cluster = StreamCluster(
        executors=spec.executors,
        max_executors=spec.executors,
        executor_memory_mb=spec.executor_memory_mb,
        master=spec.master,
        config=dict(spec.config),
    )
    with stream_session(cluster) as spark, spec.observations.open("a", buffering=1) as file:
        stream = RunningStream(spark, spec.job, lambda batch: _write(file, batch))
        sys.stdin.read()
        stream.stop()


def _write(file: IO[str], batch: BatchObservation) -> None:
    file.write(json.dumps(asdict(batch)) + "\n")


def _leave(*_: Any) -> None:
    raise SystemExit(1)


if __name__ == "__main__":
    _main()
