"""A process that reads damaged inputs, thousands of them, each within bounds of its own.

Time and memory are bounded by limits of the process, which hold in compiled code too, where Python
hears no signal. An input that breaks one ends the process: that is a finding, and the next input
goes to a new one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from elastream_lab.fuzz.reading import CPU_S, read_good, read_one

_MEMORY_BYTES: Final = 2 << 30
"""What a process may have on top of what it has when its libraries are loaded."""
_GRACE_S: Final = 5.0
"""What Python, which shows more, has to end an input before the limit of the process does."""
_WAIT_S: Final = 1800.0
"""When an input that takes no CPU counts as one that waits for ever."""
_CONTEXT: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Work:
    """What such a process does."""

    prepare: Callable[[], None]
    """Called once, before anything is bounded."""
    read: Callable[[str, str], tuple[bytes, str | None]]
    """Reads an input of a kind, damaged by a seed; returns it, and what is wrong about it."""
    cpu_s: float
    """The most that one input may take, in whole seconds and one more."""


FUZZ: Final = Work(read_good, read_one, CPU_S + _GRACE_S)


class Reader:
    """The near end of such a process, which is started where there is none."""

    def __init__(self, folder: Path, work: Work = FUZZ, wait_s: float = _WAIT_S) -> None:
        """Let it keep its files in ``folder`` while it reads them."""
        self._folder = folder
        self._work = work
        self._wait_s = wait_s
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def read(self, kind: str, seed: str) -> tuple[bytes, str | None]:
        """Have one input read; return it, and what is wrong, if anything is."""
        pipe = self._pipe or self._start()
        try:
            pipe.send((kind, seed))
            if not pipe.poll(self._wait_s):
                self.close()
                return b"", f"it waited for more than {self._wait_s:g} s"
            text, wrong = pipe.recv()
        except (EOFError, OSError):
            return b"", f"its process ended: {self._how_it_ended()}"
        return text, wrong

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    def _start(self) -> Connection:
        self._pipe, far = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(
            target=_serve, args=(far, self._folder, self._work), daemon=True
        )
        self._process.start()
        far.close()
        return self._pipe

    def _how_it_ended(self) -> str:
        process = self._process
        assert process is not None  # noqa: S101 - it was started before anything was sent
        process.join()
        code = process.exitcode or 0
        self.close()
        if code == -signal.SIGXCPU:
            return f"more than {self._work.cpu_s:g} s of CPU"
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def _serve(pipe: Connection, folder: Path, work: Work) -> None:
    """Load what planners load, then bound the memory, then read what comes."""
    os.nice(5)
    tempfile.tempdir = str(folder)
    work.prepare()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(EOFError, ConnectionError):  # no one asks any more
        while True:
            kind, seed = pipe.recv()
            bound = int(time.process_time() + work.cpu_s) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (bound, hard))
            pipe.send(work.read(kind, seed))
