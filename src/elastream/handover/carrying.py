"""How a coordinator moves a query with its state: asks for the checkpoint, carries it, or gives up.

The origin's record is the one truth here too: from ``yielded`` on the origin runs nothing, and who
asked may start the query on a copy of its folder. The copy is whole or not there. Where it cannot
be made the record is put back, and the origin can be started again as it was.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from elastream.atomic_io import make_folder
from elastream.handover.ledger import Record, RecordFile
from elastream.handover.messages import Message, Refuse, Yield
from elastream.model.errors import ElastreamError, ProblemError, SparkError

__all__ = ["Carried", "ask_for_checkpoint", "carry", "expect_free", "given_up", "taken"]

_LOOK_S: Final = 0.1
_REPEAT_S: Final = 1.0
_STAYS: Final = shutil.ignore_patterns("token", "*record.json*", "*.jsonl*", "*.out", "results")
"""What is the origin's own: how it is spoken to, what it remembers of handovers, what it said."""


class Link(Protocol):
    """A connection to the origin."""

    def send(self, message: Message) -> None:
        """Say it, if the origin can be reached."""

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message; ``None`` where none comes in time."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What a copy came to."""

    files: int
    size: int
    """Bytes."""


def ask_for_checkpoint(link: Link, records: RecordFile, query: str, *, patience_s: float) -> None:
    """Have the origin stop between two batches; return when its record says so."""
    name = f"move-{secrets.token_hex(8)}"
    deadline = time.monotonic() + patience_s
    asked_s = -_REPEAT_S
    while not _is_yielded(records.read(), name):
        now = time.monotonic()
        if now > deadline:
            why = f"the origin of {query!r} has not stopped within {patience_s:g} s"
            raise SparkError(f"{why}; see {records.path} whether it has since")
        if now - asked_s >= _REPEAT_S:
            link.send(Yield(name, query))
            asked_s = now
        heard = link.receive(_LOOK_S)
        if isinstance(heard, Refuse) and not _is_yielded(records.read(), name):
            raise SparkError(f"the origin of {query!r} keeps it: {heard.why}")


@contextmanager
def taken(records: RecordFile, *, patience_s: float) -> Iterator[None]:
    """Hold the record of an origin that has stopped, as soon as its process lets go of it."""
    deadline = time.monotonic() + patience_s
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(records.hold())
                break
            except ProblemError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_S)
        yield


def expect_free(folder: Path) -> None:
    """Refuse a folder in which there is something: a checkpoint must not be laid over another."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProblemError(str(folder), "is there already; give a folder that is empty or new")


def carry(origin: Path, target: Path) -> Carried:
    """Copy what the query needs to go on, whole or not at all; the origin's folder is untouched."""
    expect_free(target)
    beside = make_folder(target.absolute().parent) / f".{target.name}.{secrets.token_hex(4)}"
    try:
        shutil.copytree(origin, beside, ignore=_STAYS)
        files = [path for path in beside.rglob("*") if path.is_file()]
        for path in (*files, *(each for each in beside.rglob("*") if each.is_dir()), beside):
            _sync(path)
        size = sum(path.stat().st_size for path in files)
        if target.exists():
            target.rmdir()
        beside.rename(target)
        _sync(target.absolute().parent)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise SparkError(f"{origin} cannot be copied to {target}: {_why(error)}") from None
    return Carried(len(files), size)


def given_up(records: RecordFile, query: str, error: ElastreamError) -> SparkError:
    """Give the checkpoint back, and return what to tell: the origin can be started again."""
    records.write(Record("given-back", query, "aborted", why=str(error)))
    return SparkError(f"{error}; the checkpoint is the origin's again: start it there")


def _is_yielded(record: Record | None, name: str) -> bool:
    return record is not None and record.state == "yielded" and record.handover == name


def _why(error: OSError) -> str:
    if isinstance(error, shutil.Error):  # a list of what failed, each with its reason last
        failures: list[tuple[str, str, str]] = error.args[0]
        return str(failures[0][-1])
    return error.strerror or str(error)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
