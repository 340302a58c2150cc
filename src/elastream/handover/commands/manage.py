"""``elastream handover manage``: the coordinator of paper 002, for several applications.

It reads the load of each application from its decision log, decides by the break-even whether one
of them should lose a query, and reports that. ``--act`` carries it out. For a handover the target
is started and joins by itself. For a migration the origin is asked for its checkpoint, which is
copied, and the query is started on the copy. Started processes outlive the coordinator.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from elastream.atomic_io import make_folder
from elastream.cli.exits import INFEASIBLE
from elastream.cli.terminal import say
from elastream.handover.carrying import ask_for_checkpoint, carry, expect_free, given_up, taken
from elastream.handover.commands.managed import (
    Door,
    Managed,
    NoLoadYetError,
    Start,
    loads_of,
    read_managed,
)
from elastream.handover.ledger import RecordFile
from elastream.handover.relief import Relief, relief
from elastream.handover.spark.row_cuts import last_batch
from elastream.handover.transport import TargetLink
from elastream.model.checks import positive
from elastream.model.errors import ElastreamError, ProblemError, SparkError
from elastream.model.plan import Infeasible

_LOOK_S: Final = 0.5
_PATIENCE_S: Final = 300.0
"""How long an origin may take to finish its batch and to end."""

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The applications and their marks, as JSON.")
]
Every = Annotated[
    float | None, typer.Option(help="Seconds between two looks; without it, one look.")
]
Act = Annotated[bool, typer.Option("--act", help="Hand the query over, or move it, and watch.")]


def manage(file: File, every: Every = None, act: Act = False) -> None:
    """Plan which query should leave which application; --act does it.

    FILE has applications (each with name, log, cores of an executor, queries with their windows,
    joins and resumes: how each query is started there, doors: where each can be asked), and
    bytes_per_s, restart_s, high, target, low and ahead_s. A query goes back to the first
    application that lists it when that has room again. Exit code 3 where an application has too
    much and no query fits elsewhere.
    """
    if every is None:
        if isinstance(_look(file, act=act), Infeasible):
            raise typer.Exit(INFEASIBLE)
        return
    positive("every", every)
    while True:
        try:
            _look(file, act=act)
        except NoLoadYetError as error:  # an application has only just started
            say(str(error))
        time.sleep(every)


def _look(file: Path, *, act: bool) -> Relief | Infeasible | None:
    applications, marks = read_managed(file)
    loads = loads_of(applications, marks.ahead_s)
    outcome = relief(loads, marks)
    if outcome is None:
        busy = ", ".join(f"{each.name} {each.work / each.cores:.0%}" for each in loads)
        say(f"nothing to do: {busy}")
        return None
    say(outcome.reason)
    if act and isinstance(outcome, Relief):
        named = {each.name: each for each in applications}
        _act(file, outcome, named[outcome.origin], named[outcome.target])
    return outcome


def _act(file: Path, outcome: Relief, origin: Managed, target: Managed) -> None:
    query, door = outcome.query, origin.doors.get(outcome.query)
    handed = outcome.how == "hand over"
    start = (target.joins if handed else target.resumes).get(query)
    if start is None:
        where = f"{'joins' if handed else 'resumes'} of {target.name}"
        why = f"says nothing of {query!r}; how is it started there?"
        raise ProblemError(f"{file}: {where}", why)
    if handed:
        _hand_over(query, start, door)
        return
    if door is None:
        why = f"says nothing of {query!r}; where can it be asked for its checkpoint?"
        raise ProblemError(f"{file}: doors of {origin.name}", why)
    _migrate(query, door, start)


def _hand_over(query: str, start: Start, door: Door | None) -> None:
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


def _migrate(query: str, door: Door, start: Start) -> None:
    """Have the origin stop, copy its checkpoint, and start the query there."""
    expect_free(start.folder)
    records = RecordFile(door.folder / "record.json")
    link = TargetLink.of(door.address, door.token_file)
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
    checkpoint = start.folder / "checkpoint"
    before = last_batch(checkpoint)
    target = _Process(start)
    whole = f"before its first batch; the checkpoint is whole in {start.folder}: start it there"
    target.watch(lambda: last_batch(checkpoint) != before, whole)
    say(f"{query!r} goes on there; it paused for {time.monotonic() - stopped:.1f} s")


class _Process:
    """A started process, which may outlive this one."""

    def __init__(self, start: Start) -> None:
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
