"""Ownership of windows: the records of an application, and the ownership log.

A **record** is a small file, replaced atomically (written to a temporary file, synced, renamed).
An application that hands a query over has one, and it is authoritative: outputs at or beyond the
boundary are the target's if and only if it is ``committed``. An application that takes a query over
has another, with which it continues after a crash: ``prepared`` makes it ask, ``owns`` makes it
start. One that takes a query over and hands it on has both.

The **log** has one line of JSON for every transition, with the owner of the windows as far as that
side knows it.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from elastream.atomic_io import make_folder, write_json
from elastream.handover.messages import boundary_from
from elastream.handover.model import Boundary
from elastream.jsonl import LineFile
from elastream.model.checks import abbreviate, expect_version
from elastream.model.errors import ProblemError

_VERSION: Final = 1

Side = Literal["origin", "target"]
RecordState = Literal["committed", "aborted", "yielded", "prepared", "owns", "left"]
"""``committed``, ``aborted`` and ``yielded`` are states of the origin, the others of the target."""
Owner = Literal["origin", "split", "undecided"]
"""``origin``: no window is this target's. ``split``: windows that start before the boundary are the
origin's, the others the target's. ``undecided``: this side cannot know; the origin's record
does."""


@dataclass(frozen=True, slots=True)
class Record:
    """State of a side that must survive a crash."""

    handover: str
    query: str
    state: RecordState
    boundary: Boundary | None = None
    term: str | None = None
    """The origin's run to which the target is bound."""
    why: str = ""
    confirmed: bool = False
    """The target has confirmed; the origin need not repeat the decision."""
    finished: bool = False
    """The origin has written its last window; its query need not run again."""


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the log."""

    side: Side
    kind: str
    """The kind of event, as one word: the phase entered, or ``refuse``."""
    handover: str | None
    owner: Owner
    reason: str
    """One sentence for a person."""
    boundary: Boundary | None = None


class RecordFile:
    """A record on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_held = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Lock the record against other processes; reentrant for its holder."""
        if self._is_held:
            yield
            return
        lock = self.path.with_name(f".{self.path.name}.lock")
        try:
            make_folder(self.path.parent)
            file = lock.open("w")
        except OSError as error:
            raise ProblemError(str(self.path), f"cannot be written: {error.strerror}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ProblemError(str(self.path), "is in use by another process") from None
            self._is_held = True
            try:
                yield
            finally:
                self._is_held = False

    def write(self, record: Record) -> None:
        """Replace the record; raises ``OSError`` only if the old one is still there."""
        make_folder(self.path.parent)
        try:
            write_json(self.path, {"v": _VERSION, **asdict(record)}, synced=True)
        except OSError:
            if self.read() != record:
                raise

    def read(self) -> Record | None:
        """Return the record or ``None``; ``ProblemError`` if the file is not a record."""
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ProblemError(str(self.path), f"cannot be read: {error}") from None
        try:
            fields = json.loads(text)
            if "state" in fields:
                expect_version(str(self.path), fields["v"], newest=_VERSION)
            return _record(fields)
        except (ValueError, RecursionError, KeyError, TypeError):
            raise ProblemError(str(self.path), "is not a handover record") from None


class OwnershipLog:
    """Appends notes to a log file; rejects a file that is something else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = LineFile(path, "handover log")

    def append(self, note: Note, at_ms: int) -> None:
        """Write one line atomically; ``at_ms``, the writer's time, is for people only."""
        self._lines.append(json.dumps({"v": _VERSION, "at_ms": at_ms, **asdict(note)}))


def _record(fields: dict[str, Any]) -> Record:
    state, boundary, term = fields["state"], fields["boundary"], fields["term"]
    if state not in get_args(RecordState):
        raise ValueError(abbreviate(state))
    return Record(
        str(fields["handover"]),
        str(fields["query"]),
        state,
        None if boundary is None else boundary_from("boundary", boundary),
        None if term is None else str(term),
        str(fields["why"]),
        fields.get("confirmed") is True,
        fields.get("finished") is True,
    )
