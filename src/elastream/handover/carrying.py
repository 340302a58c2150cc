"""Move a query with its state from the coordinator: request the checkpoint, copy it, or give up.

The origin's record decides here too: from ``yielded`` on the origin runs nothing, and the requester
may start the query on a copy of its folder. The copy is complete or absent. If it cannot be made,
the record is put back, and the origin can be started again as before.
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
from typing import Final

from elastream.atomic_io import make_folder
from elastream.handover.ledger import Record, RecordFile
from elastream.handover.messages import Refuse, Yield
from elastream.handover.transport import TargetLink
from elastream.model.errors import ElastreamError, ProblemError, SparkError

_LOOK_S: Final = 0.1
_REPEAT_S: Final = 1.0
_STAYS: Final = shutil.ignore_patterns("token", "*record.json*", "*.jsonl*", "*.out", "results")
"""Files of the origin that are not copied: its token, its handover records and its logs."""


@dataclass(frozen=True, slots=True)
class Carried:
    """Size of a copy."""

    files: int
    size: int
    """Bytes."""


def ask_for_checkpoint(
    link: TargetLink, records: RecordFile, query: str, *, patience_s: float
) -> None:
    """Have the origin stop between two batches; return when its record confirms it."""
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
        answer = link.receive(_LOOK_S)
        if isinstance(answer, Refuse) and not _is_yielded(records.read(), name):
            raise SparkError(f"the origin of {query!r} keeps it: {answer.why}")


@contextmanager
def taken(records: RecordFile, *, patience_s: float) -> Iterator[None]:
    """Hold the record of a stopped origin, as soon as its process releases it."""
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
    """Reject a folder that is not empty: a checkpoint must not be copied over another."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProblemError(str(folder), "is there already; give a folder that is empty or new")


def carry(origin: Path, target: Path) -> Carried:
    """Copy what the query needs to continue, completely or not at all; the origin is unchanged."""
    expect_free(target)
    partial = make_folder(target.absolute().parent) / f".{target.name}.{secrets.token_hex(4)}"
    try:
        shutil.copytree(origin, partial, ignore=_STAYS)
        files = [path for path in partial.rglob("*") if path.is_file()]
        for path in (*files, *(each for each in partial.rglob("*") if each.is_dir()), partial):
            _sync(path)
        size = sum(path.stat().st_size for path in files)
        if target.exists():
            target.rmdir()
        partial.rename(target)
        _sync(target.absolute().parent)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise SparkError(f"{origin} cannot be copied to {target}: {_why(error)}") from None
    return Carried(len(files), size)


def given_up(records: RecordFile, query: str, error: ElastreamError) -> SparkError:
    """Give the checkpoint back and return the error to report: the origin can be started again."""
    records.write(Record("given-back", query, "aborted", why=str(error)))
    return SparkError(f"{error}; the checkpoint is the origin's again: start it there")


def _is_yielded(record: Record | None, name: str) -> bool:
    return record is not None and record.state == "yielded" and record.handover == name


def _why(error: OSError) -> str:
    if isinstance(error, shutil.Error):  # a list of failures, each with its reason last
        failures: list[tuple[str, str, str]] = error.args[0]
        return str(failures[0][-1])
    return error.strerror or str(error)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
