"""The decision log: every decision with its reason and figures, one JSON object a line.

A line is written whole, by one append, or not at all as far as a reader can tell: after a crash
the last line may be torn, readers pass over it and the next writer cuts it off. The first member
of each line, ``v``, is the version of the format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from elastream.model.checks import Number, amount, count, shown
from elastream.model.errors import ProblemError

__all__ = [
    "VERSION",
    "Decision",
    "DecisionLog",
    "Kind",
    "line_of",
    "log_writer",
    "read_decisions",
]

VERSION: Final = 1
"""Version of the line format."""

Kind = Literal[
    "attach",
    "hold",
    "wait",
    "advise",
    "scale-out",
    "scale-in",
    "rebalance",
    "move",
    "plan",
    "migrate",
    "replan",
    "refuse",
    "abandon",
    "done",
    "detach",
]
"""What was decided.

``hold``: nothing should change. ``wait``: something is under way and not ready. ``advise``: what
would be done. ``scale-out``, ``scale-in``, ``rebalance``, ``move``: a change begins. ``plan``: the
tasks to move are chosen. ``migrate``: a mini-migration. ``replan``: disturbed, planned anew.
``refuse``: a request that cannot be met. ``abandon``, ``done``: how a change ended.
"""

_LONGEST_LINE: Final = 1 << 20
"""Bytes. A longer line is not ours."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision."""

    at_ms: int | None
    """Time of the stream, in milliseconds since the epoch: when the last batch committed before
    the decision; ``None`` before the first batch."""
    batch: int | None
    """That batch."""
    kind: Kind
    reason: str
    """One sentence for a person."""
    executors: int
    """How many were alive."""
    utilisation: float | None = None
    """Mean over them; ``None`` where it was not known or not looked at."""
    figures: Mapping[str, Number] = field(default_factory=dict)
    """The numbers behind the reason, by name."""


class DecisionLog:
    """Appends decisions to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _cut_torn_line(path)

    def append(self, decision: Decision) -> None:
        """Write one line."""
        line = (line_of(decision) + "\n").encode()
        with self.path.open("ab", buffering=0) as file:
            file.write(line)


def log_writer(
    log: Path | str | Callable[[Decision], None] | None,
) -> Callable[[Decision], None]:
    """Return what writes decisions: to a file, to a function, or nowhere."""
    if log is None:
        return lambda _: None
    if callable(log):
        return log
    return DecisionLog(Path(log)).append


def line_of(decision: Decision) -> str:
    """Return the decision as one line of JSON, without the line's end."""
    record = {
        "v": VERSION,
        "at_ms": decision.at_ms,
        "batch": decision.batch,
        "kind": decision.kind,
        "executors": decision.executors,
        "utilisation": decision.utilisation,
        "reason": decision.reason,
        "figures": dict(decision.figures),
    }
    return json.dumps(record, allow_nan=False)


def read_decisions(path: Path) -> Iterator[Decision]:
    """Yield the decisions in the file; a torn last line is passed over.

    Raises ``ProblemError`` where the file cannot be read or a line is not a decision.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if line.endswith(b"\n"):
                    yield _decision(f"{path}, line {number}", line)
                elif len(line) == _LONGEST_LINE or not _begins_as_record(line):
                    raise ProblemError(f"{path}, line {number}", "is not a decision")
    except OSError as error:
        raise ProblemError(str(path), f"cannot be read: {error.strerror or error}") from None
    if number == 0:
        raise ProblemError(str(path), "is empty: not a decision log, or nothing is decided yet")


def _decision(where: str, line: bytes) -> Decision:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ProblemError(where, "is not a decision: not JSON") from None
    if not isinstance(record, dict) or "v" not in record:
        raise ProblemError(where, "is not a decision: no object with a version")
    if record["v"] != VERSION:
        version = shown(record["v"])
        raise ProblemError(where, f"has version {version}; this elastream reads {VERSION}")
    try:
        return _from_record(record)
    except KeyError as error:
        raise ProblemError(where, f"is not a decision: {error.args[0]} is missing") from None
    except ProblemError as error:
        raise ProblemError(where, f"is not a decision: {error}") from None


def _from_record(record: Mapping[str, Any]) -> Decision:
    kind, reason, figures = record["kind"], record["reason"], record["figures"]
    if kind not in get_args(Kind):
        raise ProblemError("kind", f"{shown(kind)} is not known")
    if not isinstance(reason, str):
        raise ProblemError("reason", f"{shown(reason)} is not a text")
    if not isinstance(figures, dict):
        raise ProblemError("figures", f"{shown(figures)} is not an object")
    return Decision(
        at_ms=_or_none(record["at_ms"], lambda value: count("at_ms", value)),
        batch=_or_none(record["batch"], lambda value: count("batch", value)),
        kind=kind,
        reason=reason,
        executors=count("executors", record["executors"]),
        utilisation=_or_none(record["utilisation"], lambda value: amount("utilisation", value)),
        figures={name: amount(f"figures.{name}", value) for name, value in figures.items()},
    )


def _or_none(value: Any, check: Any) -> Any:
    return None if value is None else check(value)


def _begins_as_record(line: bytes) -> bool:
    beginning = b'{"v": '
    return line.startswith(beginning) or beginning.startswith(line)


def _cut_torn_line(path: Path) -> None:
    """Cut off what follows the last line's end, after a look that the file is a decision log."""
    try:
        if not path.exists() or path.stat().st_size == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()
            return
        with path.open("r+b") as file:
            first = file.readline(_LONGEST_LINE)
            if not _begins_as_record(first):
                raise ProblemError(str(path), "exists and is not a decision log; left as it is")
            file.seek(0, os.SEEK_END)
            end = file.tell()
            file.seek(max(0, end - _LONGEST_LINE))
            tail = file.read()
            file.truncate(end - len(tail) + tail.rfind(b"\n") + 1)
    except OSError as error:
        raise ProblemError(str(path), f"cannot be written: {error.strerror or error}") from None
