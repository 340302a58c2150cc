"""Commands to a running loop: read, checked as a whole, carried out, and answered. JSON both ways.

A command is an object: ``{"command": "scale", "executors": 4}``. Its answer says whether it was
taken, what will happen, and how the loop is. What changes something, or was refused, is a line of
the decision log that names who asked.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from elastream.control.policy_fields import with_fields
from elastream.core.decisions import Decision
from elastream.core.events import (
    CommandRefused,
    PauseRequested,
    Request,
    ResumeRequested,
    ScaleRequested,
    UpdateRequested,
)
from elastream.core.explaining import explained
from elastream.core.scenes import take_scene
from elastream.core.state import LoopState
from elastream.model.checks import abbreviate, count
from elastream.model.errors import ElastreamError, ProblemError

_log = logging.getLogger(__name__)

LONGEST: Final = 8 << 10
"""Bytes of a command."""
_MOST_SHOWN: Final = 200
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "status": (),
    "scale": ("executors",),
    "pause": (),
    "resume": (),
    "set": ("fields",),
    "detach": (),
}
"""What belongs to each command."""
COMMANDS: Final = tuple(_MEMBERS)


class Steered(Protocol):
    """A running loop."""

    @property
    def state(self) -> LoopState:
        """What it knows now."""

    def request(self, event: Request) -> tuple[Decision, ...]:
        """Take in what somebody asks for; return what was logged about it."""

    def end(self, reason: str | None = None) -> None:
        """Let go of the application."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of a command."""

    taken: bool
    says: str
    """What will happen, or why nothing does; one line."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """How the loop is then; empty where nothing is to be shown."""

    def line(self) -> str:
        """Return it as one line of JSON, without the line's end."""
        return json.dumps({"v": 1, **asdict(self)}, allow_nan=False)

    @classmethod
    def of(cls, line: bytes) -> Answer:
        """Return the answer in a line; raises ``ElastreamError`` where there is none."""
        try:
            record = json.loads(line)
            taken, says, status = record["taken"], record["says"], record["status"]
            if record["v"] == 1 and isinstance(says, str) and isinstance(status, dict):
                return cls(taken is True, says, status)
        except (ValueError, RecursionError, KeyError, TypeError):
            pass
        raise ElastreamError("the answer cannot be read: is this a control door of elastream?")


Door = Callable[[bytes, str], Answer]
"""Takes a command and who gave it."""


def answered(steered: Steered, text: bytes, by: str) -> Answer:
    """Carry out the command in ``text`` that somebody gave, or refuse it; never raises."""
    try:
        return _carried_out(steered, _read(text), by)
    except ElastreamError as error:
        why = " ".join(str(error).split())[:_MOST_SHOWN]
        steered.request(CommandRefused(why, by))
        return Answer(False, why)
    except Exception as error:  # such as of a goal of another package
        _log.exception("a command of %s failed", by)
        return Answer(False, f"a fault of elastream itself: {type(error).__name__}; see its log")


def _read(text: bytes) -> Mapping[str, Any]:
    if len(text) > LONGEST:
        raise ProblemError("", f"a command has at most {LONGEST} bytes")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise ProblemError("", "a command is not JSON") from None
    name = record.get("command") if isinstance(record, dict) else None
    if not isinstance(name, str) or name not in _MEMBERS:
        known = ", ".join(COMMANDS)
        raise ProblemError("command", f"{abbreviate(name)} is not one; use {known}")
    wrong = record.keys() ^ {"command", *_MEMBERS[name]}
    if wrong:
        expected = " and ".join(_MEMBERS[name]) or "nothing"
        raise ProblemError(abbreviate(min(wrong)), f"{name} takes {expected} with it")
    return dict(record)


def _carried_out(steered: Steered, record: Mapping[str, Any], by: str) -> Answer:
    match record["command"]:
        case "status":
            return Answer(True, explained(steered.state), _status(steered.state))
        case "scale":
            return _asked(steered, ScaleRequested(count("executors", record["executors"]), by=by))
        case "pause":
            return _asked(steered, PauseRequested(by))
        case "resume":
            return _asked(steered, ResumeRequested(by))
        case "set":
            policy = with_fields(steered.state.policy, _fields(record["fields"]))
            return _asked(steered, UpdateRequested(policy, by))
        case _:
            return _detached(steered, by)


def _fields(record: object) -> Mapping[str, str]:
    are_texts = isinstance(record, dict) and all(isinstance(each, str) for each in record.values())
    if not are_texts or not record:
        raise ProblemError("fields", f"{abbreviate(record)} is not an object of texts by field")
    return record  # type: ignore[return-value]


def _asked(steered: Steered, event: Request) -> Answer:
    logged = [each for each in steered.request(event) if each.kind != "done"]
    if not logged:
        return Answer(False, "it has let go of the application; the queries run on as they are")
    return Answer(logged[0].kind != "refuse", logged[0].reason, _status(steered.state))


def _detached(steered: Steered, by: str) -> Answer:
    """Let go once the answer is on its way: the door may close with it."""
    if steered.state.phase.detached:
        return Answer(False, "it has let go already")
    reason = f"detached, asked for by {by}; the queries run on as they are"
    threading.Timer(0.1, steered.end, (reason,)).start()
    return Answer(True, reason)


def _status(state: LoopState) -> Mapping[str, Any]:
    """Return what a machine needs to know of the loop, without its tasks."""
    scene = take_scene(state)
    change = None if scene.change is None else asdict(scene.change)
    return {
        "at_ms": scene.at_ms,
        "loop": asdict(scene.loop),
        "executors": {name: asdict(each) for name, each in scene.executors.items()},
        "queries": {name: asdict(each) for name, each in scene.queries.items()},
        "change": change,
    }
