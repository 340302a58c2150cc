"""The applications that ``elastream handover manage`` manages, and their current load.

A file names programs to be started: it must be as trusted as a script of its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from elastream.cli.problem_files import expect_fields, object_fields, read_fields
from elastream.core.decision_log import read_log
from elastream.core.samples import Sample
from elastream.handover.commands.plan import window_of
from elastream.handover.model import Window
from elastream.handover.relief import ApplicationLoad, Marks, QueryLoad, foreseen_work
from elastream.handover.transport import Address
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

    address: Address
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


def loads_of(applications: Sequence[Managed], ahead_s: float) -> list[ApplicationLoad]:
    """Return the load of each application; zero if it has not been started yet.

    The home of a query is the first application that lists it.
    """
    homes: dict[str, str] = {}
    for each in applications:
        for query in each.windows:
            homes.setdefault(query, each.name)
    return [_load_of(each, homes, ahead_s) for each in applications]


def _load_of(each: Managed, homes: Mapping[str, str], ahead_s: float) -> ApplicationLoad:
    if each.executors is not None and not each.log.exists():
        return ApplicationLoad(each.name, each.cores * each.executors, 0.0)
    load = load_from_log(each.name, each.log, each.windows, each.cores, ahead_s)
    queries = tuple(replace(query, home=homes[query.name]) for query in load.queries)
    return replace(load, queries=queries)


class NoLoadYetError(ProblemError):
    """The log of an application that has just started has no load yet."""


def load_from_log(
    name: str,
    log: Path,
    windows: Mapping[str, Window | None],
    cores: float = 1,
    ahead_s: float = 0.0,
) -> ApplicationLoad:
    """Return the load of an application with ``cores`` cores per executor.

    Of its queries, those in ``windows`` with measured work may leave. A sample is taken once a
    minute, and the first may contain no work. If no decision records the utilisation of the
    executors, it is the work of all tasks. An application that has ended has no load.
    """
    sample: Sample | None = None
    utilisation: float | None = None
    ended = False
    past: list[tuple[int, float]] = []
    for entry in read_log(log):
        if isinstance(entry, Sample):
            sample = entry
            past.append((entry.at_ms, sum(task.work for task in entry.tasks.values())))
            continue
        ended = entry.kind == "detach"
        if entry.utilisation is not None:
            utilisation = entry.utilisation
    if sample is None:
        raise NoLoadYetError(str(log), "has no sample yet; wait for some batches")
    if not sample.executors:
        raise ProblemError(str(log), "has no executors")
    all_cores = cores * len(sample.executors)
    if ended:
        return ApplicationLoad(name, all_cores, 0.0)
    work, state = dict[str, float](), dict[str, float]()
    for task, task_sample in sample.tasks.items():
        work[task.query] = work.get(task.query, 0.0) + task_sample.work
        state[task.query] = state.get(task.query, 0.0) + task_sample.state_bytes
    queries = tuple(
        QueryLoad(query, work[query], state[query], sample.rows_per_s.get(query, 0.0), window)
        for query, window in windows.items()
        if work.get(query)
    )
    busy = sum(work.values()) if utilisation is None else utilisation * all_cores
    foreseen = foreseen_work(past, ahead_s)
    return ApplicationLoad(name, all_cores, max(busy, sum(work.values())), queries, foreseen)


def read_managed(file: Path) -> tuple[list[Managed], Marks]:
    """Return the applications of a file, and the marks at which one is overloaded."""
    data = read_fields(file)
    required = ("applications", "bytes_per_s", "restart_s")
    expect_fields("", data, required=required, optional=("high", "target", "low", "ahead_s"))
    listed = data.pop("applications")
    if not isinstance(listed, list) or not listed:
        raise ProblemError("applications", f"{abbreviate(listed)} is not a list of applications")
    found = [_application(f"applications[{i}]", each) for i, each in enumerate(listed)]
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise ProblemError("applications", "have the same name twice")
    return found, Marks(**data)


def _application(field: str, value: object) -> Managed:
    optional = ("cores", "executors", "queries", "joins", "resumes", "doors")
    data = object_fields(field, value, required=("name", "log"), optional=optional)
    executors = data.get("executors")

    def each(name: str, read: Callable[[str, object], _T]) -> dict[str, _T]:
        members = data.get(name, {})
        if not isinstance(members, dict):
            raise ProblemError(f"{field}.{name}", f"{abbreviate(members)} is not an object")
        return {query: read(f"{field}.{name}.{query}", entry) for query, entry in members.items()}

    return Managed(
        _text(f"{field}.name", data["name"]),
        Path(_text(f"{field}.log", data["log"])),
        positive(f"{field}.cores", data.get("cores", 1)),
        None if executors is None else count(f"{field}.executors", executors, least=1),
        each("queries", lambda at, entry: None if entry is None else window_of(at, entry)),
        each("joins", _start),
        each("resumes", _start),
        each("doors", _door),
    )


def _start(field: str, value: object) -> Start:
    data = object_fields(field, value, required=("command", "folder"))
    command = data["command"]
    if not isinstance(command, list) or not command:
        raise ProblemError(f"{field}.command", f"{abbreviate(command)} is not a list of words")
    words = tuple(_text(f"{field}.command[{i}]", word) for i, word in enumerate(command))
    return Start(words, Path(_text(f"{field}.folder", data["folder"])))


def _door(field: str, value: object) -> Door:
    names = ("address", "token_file", "folder")
    data = object_fields(field, value, required=names)
    address, token, folder = (_text(f"{field}.{name}", data[name]) for name in names)
    try:
        return Door(Address.of(address), Path(token), Path(folder))
    except ProblemError as error:
        raise ProblemError(f"{field}.address", error.why) from None


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ProblemError(field, f"{abbreviate(value)} is not a text")
    return value
