"""The two applications of the handover study, each in a process of its own, seen from outside."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from elastream.model.errors import SparkError
from elastream_lab.studies.handover.application import Task

_MODULE: Final = "elastream_lab.studies.handover.application"
_ANSWER_TIMEOUT_S: Final = 180.0
_PARTITIONS: Final = {"origin": 2, "target": 3}
"""The sides need not have the same number."""


class Side:
    """An application in a process of its own."""

    def __init__(self, partitions: int, log: Path, master: str | None = None) -> None:
        self._log = log
        named = [] if master is None else [master]
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-m", _MODULE, str(partitions), *named],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                bufsize=1,
            )

    def tell(self, do: str, task: Task | None = None, **members: object) -> None:
        """Give a command; :meth:`answer` has to be called before the next."""
        fields = {"do": do, "task": None if task is None else task.as_json(), **members}
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        try:
            self._process.stdin.write(json.dumps(fields) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def answer(self) -> dict[str, Any]:
        """Return the answer to the last command, or to the start."""
        output = self._process.stdout
        assert output is not None  # noqa: S101 - asked for above
        if not select.select([output], [], [], _ANSWER_TIMEOUT_S)[0]:
            raise SparkError(f"an application did not answer in {_ANSWER_TIMEOUT_S:g} s")
        line = output.readline()
        if not line:
            raise self._gone()
        answered: dict[str, Any] = json.loads(line)
        return answered

    def ask(self, do: str, task: Task | None = None, **members: object) -> dict[str, Any]:
        """Give a command and return the answer."""
        self.tell(do, task, **members)
        return self.answer()

    def check(self) -> None:
        """Raise ``SparkError`` where the application has ended by itself."""
        if self._process.poll() is not None:
            raise self._gone()

    def close(self) -> None:
        """Let it end, and see that it does."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _gone(self) -> SparkError:
        self._process.wait(30)
        said = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        return SparkError(
            f"an application ended with code {self._process.returncode}: {' '.join(said)}"
        )


@contextmanager
def both_sides(folder: Path, masters: Sequence[str | None]) -> Iterator[tuple[Side, Side]]:
    """Start both applications, each on its master, and end them."""
    sides: list[Side] = []
    try:
        for (name, partitions), master in zip(_PARTITIONS.items(), masters, strict=True):
            sides.append(Side(partitions, folder / f"{name}.log", master))
        origin, target = sides
        for side in sides:
            side.answer()
        yield origin, target
    finally:
        for side in sides:
            side.close()
