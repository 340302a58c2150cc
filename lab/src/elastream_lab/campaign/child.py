"""The other side of an application in its own process: what it tells, what it is asked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from elastream_lab.campaign.folders import Folders
from elastream_lab.campaign.marked_processes import MARK


@dataclass
class Heard:
    """What an application has told so far."""

    ready: bool = False
    application: str | None = None
    phase: str = "none"
    phases: Counter[str] = field(default_factory=Counter)
    """How often each phase came: one may be over before anybody looks."""
    size: int = 0
    """How many executors hold state, or may: spares left out."""
    executors: tuple[str, ...] = ()
    """Those that the loop knew when the phase was told."""
    leaving: tuple[str, ...] = ()
    """Those of them that it had told to go."""
    decisions: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Queries that failed, with the reason."""
    refused: list[str] = field(default_factory=list)
    """Commands that were not obeyed, with the reason."""
    answers: int = 0
    left: list[str] | None = None


class Child:
    """A running application."""

    def __init__(self, folders: Folders, number: int, mark: str) -> None:
        self.number = number
        self.heard = Heard()
        self._changed = threading.Condition()
        temporary = folders.temporary(number)
        temporary.mkdir(parents=True)
        environment = {**os.environ, MARK: mark, "TMPDIR": str(temporary)}
        environment["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={temporary}"
        with folders.said(number).open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-m", "elastream_lab.campaign.application", str(folders.root)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=environment,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def code(self) -> int | None:
        """Its exit code; ``None`` while it runs."""
        return self._process.poll()

    def until(self, reached: Callable[[Heard], bool], timeout_s: float) -> bool:
        """Wait until what was heard is so; ``False`` where it ended or the time was up before."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not reached(self.heard):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self.code is not None:
                    return reached(self.heard)
                self._changed.wait(min(left_s, 0.5))
        return True

    def ask(self, command: str, **arguments: Any) -> None:
        """Ask for something; an application that has ended hears nothing."""
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps({"ask": command, **arguments}) + "\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End its Python process at once."""
        self._process.send_signal(signal.SIGKILL)
        self.wait(60.0)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end; ``None`` where it goes on."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(timeout_s)
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        return self.code

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):  # a line that the end has torn
                told = json.loads(line)
                with self._changed:
                    _take(self.heard, told)
                    self._changed.notify_all()


def _take(heard: Heard, told: dict[str, Any]) -> None:
    if "phase" in told:
        heard.phases[told["phase"]] += told["phase"] != heard.phase
        heard.phase, heard.size = told["phase"], told["size"]
        heard.executors, heard.leaving = tuple(told["executors"]), tuple(told["leaving"])
    if "decision" in told:
        heard.decisions.append(told["decision"])
    if "failed" in told:
        heard.failures.append(f"{told['failed']}: {told['why']}")
    if "obeyed" in told:
        heard.answers += 1
        if not told["obeyed"]:
            heard.refused.append(told["why"])
    heard.ready = heard.ready or told.get("ready", False)
    heard.application = told.get("application", heard.application)
    heard.left = told.get("left", heard.left)
