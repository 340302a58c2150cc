"""Input of ``elastream handover manage``: the applications, their queries, and how to start them.

A file names programs to be started: it must be as trusted as a script of its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elastream.cli.problem_files import Fields, expect_fields, read_fields
from elastream.handover.model import Window
from elastream.handover.relief import ApplicationLoad, Marks
from elastream.model.checks import abbreviate, count, positive
from elastream.model.errors import ProblemError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Start:
    """How a query is started in an application."""

    command: tuple[str, ...]
    folder: Path
    """Folder of its checkpoint and its log."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where a running query can be asked for its checkpoint."""

    address: str
    token_file: Path
    folder: Path


@dataclass(frozen=True, slots=True)
class Managed:
    """A managed application."""

    name: str
    log: Path
    cores: float
    executors: int | None
    """Number of executors it will have, if it has not been started yet."""
    windows: Mapping[str, Window | None]
    joins: Mapping[str, Start]
    """How each query is taken over there."""
    resumes: Mapping[str, Start]
    """How each query continues there, on a copied checkpoint."""
    doors: Mapping[str, Door]


def load_of(application: Managed) -> ApplicationLoad:
    """Return the current load of an application; zero if it has not been started yet."""
    from elastream.handover.loads import load_from_log

    each = application
    if each.executors is not None and not each.log.exists():
        return ApplicationLoad(each.name, each.cores * each.executors, 0.0)
    return load_from_log(each.name, each.log, each.windows, each.cores)


def read_managed(file: Path) -> tuple[list[Managed], Marks]:
    """Return the applications of a file, and the marks at which one is overloaded."""
    data = read_fields(file)
    expect_fields(
        "",
        data,
        required=("applications", "bytes_per_s", "restart_s"),
        optional=("high", "target"),
    )
    listed = data.pop("applications")
    if not isinstance(listed, list) or not listed:
        raise ProblemError("applications", f"{abbreviate(listed)} is not a list of applications")
    found = [_application(f"applications[{i}].", each) for i, each in enumerate(listed)]
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise ProblemError("applications", "have the same name twice")
    return found, Marks(**data)


def _application(where: str, value: object) -> Managed:
    data = _object(where, value)
    optional = ("cores", "executors", "queries", "joins", "resumes", "doors")
    expect_fields(where, data, required=("name", "log"), optional=optional)
    executors = data.get("executors")

    def each(name: str, read: Callable[[str, object], _T]) -> dict[str, _T]:
        members = _object(f"{where}{name}", data.get(name, {}))
        return {query: read(f"{where}{name}.{query}", entry) for query, entry in members.items()}

    return Managed(
        _text(f"{where}name", data["name"]),
        Path(_text(f"{where}log", data["log"])),
        positive(f"{where}cores", data.get("cores", 1)),
        None if executors is None else count(f"{where}executors", executors, least=1),
        each("queries", _window),
        each("joins", _start),
        each("resumes", _start),
        each("doors", _door),
    )


def _window(where: str, value: object) -> Window | None:
    if value is None:
        return None
    data = _object(where, value)
    expect_fields(f"{where}.", data, required=("kind", "length", "slide"))
    return Window.of(data["kind"], data["length"], data["slide"], field=where)


def _start(where: str, value: object) -> Start:
    data = _object(where, value)
    expect_fields(f"{where}.", data, required=("command", "folder"))
    command = data["command"]
    if not isinstance(command, list) or not command:
        raise ProblemError(f"{where}.command", f"{abbreviate(command)} is not a list of words")
    words = tuple(_text(f"{where}.command[{i}]", word) for i, word in enumerate(command))
    return Start(words, Path(_text(f"{where}.folder", data["folder"])))


def _door(where: str, value: object) -> Door:
    from elastream.handover.transport import Address

    data = _object(where, value)
    expect_fields(f"{where}.", data, required=("address", "token_file", "folder"))
    address, token, folder = (
        _text(f"{where}.{name}", data[name]) for name in ("address", "token_file", "folder")
    )
    try:
        Address.of(address)
    except ProblemError as error:
        raise ProblemError(f"{where}.address", error.why) from None
    return Door(address, Path(token), Path(folder))


def _object(where: str, value: object) -> Fields:
    if not isinstance(value, dict):
        raise ProblemError(where.rstrip("."), f"{abbreviate(value)} is not an object")
    found: dict[str, Any] = value
    return found


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ProblemError(where, f"{abbreviate(value)} is not a text")
    return value
