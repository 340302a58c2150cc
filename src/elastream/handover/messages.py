"""Messages between origin and target, as data and as JSON.

Paper 002, algorithms 1 and 2, exchange three: migrate(Q), ts_start, ts_mi. Here there are more,
because messages are lost and sides crash. Every message names its handover, and from the acceptance
on also the origin's term: one run of the origin's driver. So late and duplicate messages are
recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any, Final

from elastream.handover.model import Boundary, QueryShape, Window
from elastream.model.checks import abbreviate, count
from elastream.model.errors import ProblemError

_LONGEST_TEXT: Final = 500


@dataclass(frozen=True, slots=True)
class Join:
    """Target: requests to take the query over."""

    handover: str
    """Chosen by the target, different for every attempt."""
    shape: QueryShape


@dataclass(frozen=True, slots=True)
class Accept:
    """Origin: read your inputs, and report from when on you see every row. Repeated if pending."""

    handover: str
    term: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Origin: refuses the handover."""

    handover: str
    why: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Target: reports the timestamps from which on it sees every row."""

    handover: str
    term: str
    whole_from: tuple[int, ...]
    """One per input."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Origin: offers this boundary, and writes no output beyond it until the decision."""

    handover: str
    term: str
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Ready:
    """Target: has the boundary on disk and can start there. Also asks for the decision."""

    handover: str
    term: str
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Commit:
    """Origin: the decision is on disk; windows at or after the boundary are the target's."""

    handover: str
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Abort:
    """Origin: there is no such handover, or no longer; all windows are the origin's."""

    handover: str
    term: str
    """The term of the message it answers, or the origin's own."""
    why: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Target: confirms the commit."""

    handover: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Target: gives up. Never sent after ``Ready``."""

    handover: str
    why: str


@dataclass(frozen=True, slots=True)
class Yield:
    """Coordinator: asks the origin to stop between two batches and to leave its checkpoint."""

    handover: str
    """Chosen by the sender; the origin's record names it once it has stopped."""
    query: str
    """Name of the query."""


Message = Join | Accept | Refuse | Seen | Offer | Ready | Commit | Abort | Taken | Leave | Yield

_NAMES: Final[Mapping[str, type[Message]]] = {
    kind.__name__.lower(): kind
    for kind in (Join, Accept, Refuse, Seen, Offer, Ready, Commit, Abort, Taken, Leave, Yield)
}


def members_of(message: Message) -> dict[str, object]:
    """Return the message as the members of a JSON object."""
    return {"type": type(message).__name__.lower(), **asdict(message)}


def from_members(members: object) -> Message:
    """Return the message, or raise ``ProblemError`` with the wrong member."""
    if not isinstance(members, dict):
        raise ProblemError("message", f"{abbreviate(members)} is not an object")
    name = members.get("type")
    kind = _NAMES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProblemError("type", f"{abbreviate(name)} is not a message")
    fields = kind.__dataclass_fields__
    for found in members:
        if found != "type" and found not in fields:
            raise ProblemError(abbreviate(found)[1:-1], f"is not a member of {name}")
    return kind(**{field: _READERS[field](field, _member(members, field)) for field in fields})


def boundary_from(field: str, value: object) -> Boundary:
    """Return the validated boundary."""
    members = _object(field, value)
    return Boundary(
        _whole(f"{field}.migration", _member(members, "migration")),
        _whole(f"{field}.activation", _member(members, "activation")),
        _wholes(f"{field}.from_timestamps", _member(members, "from_timestamps")),
        _wholes(f"{field}.discards", _member(members, "discards")),
        _text(f"{field}.counts", members.get("counts", "")),
    )


def _shape(field: str, value: object) -> QueryShape:
    members = _object(field, value)
    window = _object(f"{field}.window", _member(members, "window"))
    sizes = (_member(window, name) for name in ("kind", "length", "slide"))
    return QueryShape(
        _text(f"{field}.name", _member(members, "name")),
        Window.of(*sizes, field=f"{field}.window"),
        count(f"{field}.inputs", _member(members, "inputs"), least=1),
        _text(f"{field}.operation", _member(members, "operation")),
        count(f"{field}.lateness", _member(members, "lateness")),
    )


def _object(field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProblemError(field, f"{abbreviate(value)} is not an object")
    return value


def _member(members: Mapping[str, Any], name: str) -> object:
    if name not in members:
        raise ProblemError(name, "is missing")
    found: object = members[name]
    return found


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ProblemError(field, f"{abbreviate(value)} is not a short text")
    return value


def _whole(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ProblemError(field, f"{abbreviate(value)} is not a whole number")
    return int(value)


def _wholes(field: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise ProblemError(field, f"{abbreviate(value)} is not a list")
    return tuple(_whole(f"{field}[{i}]", entry) for i, entry in enumerate(value))


_READERS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "handover": _text,
    "query": _text,
    "term": _text,
    "why": _text,
    "shape": _shape,
    "whole_from": _wholes,
    "boundary": boundary_from,
}
