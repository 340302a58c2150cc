"""Actions of ``elastream handover manage --act``: start a target, watch it, and report.

A handover: the target is started and joins by itself. A migration: the origin is asked for its
checkpoint (:mod:`elastream.handover.yielding`), which is copied, and the query is started on the
copy. Started processes outlive the coordinator.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from elastream.cli.terminal import say
from elastream.handover.commands.managed import Door, Start
from elastream.model.errors import ElastreamError, ProblemError, SparkError

_LOOK_S: Final = 0.5
_PATIENCE_S: Final = 300.0
"""How long an origin may take to finish its batch and to end."""


def hand_over(query: str, start: Start, door: Door | None) -> None:
    """Start the target, wait until it owns its windows; also for the origin's last, if visible."""
    log = start.folder / "handover.jsonl"
    taken = _Lines(log)
    finished = None if door is None else _Lines(door.folder / "handover.jsonl")
    target = _Process(start)
    target.watch(lambda: taken.contains("own"), "without the query")
    say(f"the target owns its windows; see {log}")
    if finished is not None:
        target.watch(lambda: finished.contains("finish"), "after it had taken the query")
        say(f"the origin has put out its last window of {query!r}")


def migrate(query: str, door: Door, start: Start) -> None:
    """Have the origin stop, copy its checkpoint, and start the query there."""
    from elastream.handover.carrying import (
        ask_for_checkpoint,
        carry,
        expect_free,
        given_up,
        taken,
    )
    from elastream.handover.ledger import RecordFile
    from elastream.handover.seal import read_token
    from elastream.handover.transport import Address, TargetLink

    expect_free(start.folder)
    records = RecordFile(door.folder / "record.json")
    link = TargetLink(Address.of(door.address), read_token(door.token_file))
    try:
        ask_for_checkpoint(link, records, query, patience_s=_PATIENCE_S)
    finally:
        link.close()
    stopped = time.monotonic()
    say(f"{query!r} has stopped between two batches")
    with taken(records, patience_s=_PATIENCE_S):
        try:
            carried = carry(door.folder, start.folder)
        except ElastreamError as error:
            raise given_up(records, query, error) from None
    say(f"{carried.size} bytes in {carried.files} files are in {start.folder}")
    before = _committed(start.folder)
    target = _Process(start)
    whole = f"before its first batch; the checkpoint is whole in {start.folder}: start it there"
    target.watch(lambda: _committed(start.folder) > before, whole)
    say(f"{query!r} goes on there; it paused for {time.monotonic() - stopped:.1f} s")


class _Process:
    """A started process, which may outlive this one."""

    def __init__(self, start: Start) -> None:
        from elastream.atomic_io import make_folder

        self._output = make_folder(start.folder) / "started.out"
        try:
            with self._output.open("ab") as output:
                self._process = subprocess.Popen(  # noqa: S603 - what the person's own file says
                    start.command, stdout=output, stderr=output, start_new_session=True
                )
        except OSError as error:
            why = f"{start.command[0]} cannot be started: {error}"
            raise ProblemError("command", why) from None
        threading.Thread(target=self._process.wait, daemon=True).start()
        say(f"started process {self._process.pid}; what it says is in {self._output}")

    def watch(self, holds: Callable[[], bool], when: str) -> None:
        """Wait until the condition holds; raise if the process ends before."""
        while not holds():
            if self._process.poll() is not None:
                raise SparkError(f"the target has ended {when}; see {self._output}")
            time.sleep(_LOOK_S)


class _Lines:
    """Lines appended to a handover's log from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._before = log.stat().st_size if log.exists() else 0

    def contains(self, kind: str) -> bool:
        """Return whether one of them is of this kind."""
        if not self._log.exists():
            return False
        with self._log.open("rb") as file:
            file.seek(self._before)
            return f'"kind": "{kind}"'.encode() in file.read()


def _committed(folder: Path) -> int:
    """Return the number of the last committed batch of a query; -1 for none."""
    commits = (folder / "checkpoint" / "commits").glob("[0-9]*")
    return max((int(path.name) for path in commits if path.name.isdecimal()), default=-1)
