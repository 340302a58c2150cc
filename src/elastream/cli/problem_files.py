"""Reads problem files (``docs/reference/plan-files.md``), or names the wrong field in one line.

Unknown fields, fields given twice and anything that is not plain JSON are refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from elastream.model.checks import abbreviate, expect_version
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem

_MOST_BYTES: Final = 64 << 20
"""A file that is larger, or never ends, is not read to its end."""

VERSION: Final = 1
"""Version of the format of problem files; one that names none has it."""
_VERSION_FIELD: Final = "version"

_STEP: Final = ("work", "state", "current", "nodes", "tau")
_LISTS: Final = ("stages", "slots", "memory")

Fields = dict[str, Any]
"""The members of one JSON object, not yet checked."""


def read_fields(path: Path) -> Fields:
    """Return the members of the JSON object in the file; ``-`` is standard input."""
    raw = _read(path)
    if not raw.strip():
        raise ProblemError(str(path), "is empty; give one JSON object")
    try:
        text = raw.decode("utf-8")
        data = json.loads(text, object_pairs_hook=_members, parse_constant=float)
    except UnicodeDecodeError as error:
        raise ProblemError(str(path), f"is not UTF-8 text, at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ProblemError(str(path), f"is not JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise ProblemError(str(path), "is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise ProblemError(str(path), f"is not JSON that can be read: {error}") from None
    if not isinstance(data, dict):
        raise ProblemError(str(path), f"holds {abbreviate(data)}, not a JSON object")
    expect_version(str(path), data.pop(_VERSION_FIELD, VERSION), newest=VERSION)
    return data


def _read(path: Path) -> bytes:
    try:
        if str(path) == "-":
            if sys.stdin is None:
                raise ProblemError("-", "standard input is closed; give a file")
            raw = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with path.open("rb") as file:
                raw = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ProblemError(str(path), f"cannot be read: {error.strerror or error}") from None
    if len(raw) > _MOST_BYTES:
        raise ProblemError(str(path), f"is larger than {_MOST_BYTES >> 20} MiB; no problem is")
    return raw


def step_problem(data: Fields) -> StepProblem:
    """Return the problem of one limit: ``current`` is intervals or the node of each task."""
    expect_fields("", data, required=_STEP)
    return StepProblem.of(*(data[name] for name in _STEP))


def staged_problem(data: Fields) -> StepProblem:
    """Return the problem of a free step, with stages, slots and memory where they are given."""
    expect_fields("", data, required=_STEP, optional=(*_LISTS, "within"))
    for name in _LISTS:
        if name in data and (not isinstance(data[name], list) or not data[name]):
            raise ProblemError(name, f"{abbreviate(data[name])} is not a list of numbers")
    more = {name: data[name] for name in (*_LISTS, "within") if name in data}
    return StepProblem.of_stages(*(data[name] for name in _STEP), **more)


def expect_fields(
    prefix: str, data: Fields, *, required: Collection[str], optional: Collection[str] = ()
) -> None:
    """Refuse a member that is not a field, and a field that is missing, by name."""
    for name in data:
        if name not in required and name not in optional:
            known = ", ".join((*required, *optional))
            raise ProblemError(f"{prefix}{_name(name)}", f"is not a field; the fields are {known}")
    for name in required:
        if name not in data:
            raise ProblemError(f"{prefix}{name}", "is missing")


def object_fields(
    field: str, value: object, *, required: Collection[str], optional: Collection[str] = ()
) -> Fields:
    """Return the members of the object at ``field``; their names are checked."""
    if not isinstance(value, dict):
        raise ProblemError(field, f"{abbreviate(value)} is not an object")
    expect_fields(f"{field}.", value, required=required, optional=optional)
    return value


def _name(name: str) -> str:
    return abbreviate(name)[1:-1]


def _members(pairs: list[tuple[str, Any]]) -> Fields:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ProblemError(_name(name), "is given twice")
            seen.add(name)
    return members
