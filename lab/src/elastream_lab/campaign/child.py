"""The other side of an application in its own process: what it shows, what it is asked."""

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
class Reported:
    """What an application has reported so far."""

    ready: bool = False
    application: str | None = None
    phase: str = "none"
    phases: Counter[str] = field(default_factory=Counter)
    """How often each phase came: one may be over before anybody looks."""
    size: int = 0
    """How many executors hold state, or may: spares left out."""
    executors: tuple[str, ...] = ()
    """Those that the loop knew when the phase was reported."""
    leaving: tuple[str, ...] = ()
    """Those of them that it had released."""
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
        self.reported = Reported()
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

    def until(self, reached: Callable[[Reported], bool], timeout_s: float) -> bool:
        """Wait until the reports are so; ``False`` where it ended or the time was up before."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not reached(self.reported):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self.code is not None:
                    return reached(self.reported)
                self._changed.wait(min(left_s, 0.5))
        return True

    def ask(self, command: str, **arguments: Any) -> None:
        """Ask for something; an application that has ended receives nothing."""
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
                fields = json.loads(line)
                with self._changed:
                    _take(self.reported, fields)
                    self._changed.notify_all()


def _take(report: Reported, fields: dict[str, Any]) -> None:
    if "phase" in fields:
        report.phases[fields["phase"]] += fields["phase"] != report.phase
        report.phase, report.size = fields["phase"], fields["size"]
        report.executors, report.leaving = tuple(fields["executors"]), tuple(fields["leaving"])
    if "decision" in fields:
        report.decisions.append(fields["decision"])
    if "failed" in fields:
        report.failures.append(f"{fields['failed']}: {fields['why']}")
    if "obeyed" in fields:
        report.answers += 1
        if not fields["obeyed"]:
            report.refused.append(fields["why"])
    report.ready = report.ready or fields.get("ready", False)
    report.application = fields.get("application", report.application)
    report.left = fields.get("left", report.left)
