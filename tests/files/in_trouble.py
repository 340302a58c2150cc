"""Every writer of ours under one fault: ``python -m tests.files.in_trouble FAULT FOLDER``.

A process of its own, since limits and rights are a process's. It prints, for each writer, what the
write ended with and what there was to read before, after, and once the fault was gone.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from elastream.atomic_io import write_json, write_picture, write_text
from elastream.core.decision_log import DecisionLog, read_decisions
from elastream.core.decisions import Decision
from elastream.jsonl import LineFile, lines_of

NOBODY = 65534
LONG = 40_000
"""Characters of what is written: more than a limit, or what is left of a disk, has room for."""


@dataclass(frozen=True)
class Outcome:
    """What came of one write, and what was there to read."""

    error: int | None
    before: str
    after: str
    again: str
    """Once the fault was gone."""
    names: list[str]
    """What was in the folder under the fault."""


class Picture:
    """As a figure of matplotlib saves itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def savefig(self, fname: Path, *, dpi: int, format: str) -> None:  # noqa: A002, ARG002
        fname.write_text(self.text)


@dataclass(frozen=True)
class Writer:
    """One way to write a text, and to read it."""

    write: Callable[[Path, str], None]
    read: Callable[[Path], str] = Path.read_text


def line_writer(**limits: int) -> Writer:
    files: dict[Path, LineFile] = {}

    def write(path: Path, text: str) -> None:
        if path not in files:
            files[path] = LineFile(path, "log", **limits)
        files[path].append(json.dumps({"v": 1, "text": text}))

    def read(path: Path) -> str:
        return "".join(json.loads(line)["text"] for _, line in lines_of(path))

    return Writer(write, read)


def decision_writer() -> Writer:
    logs: dict[Path, DecisionLog] = {}

    def write(path: Path, text: str) -> None:
        if path not in logs:
            logs[path] = DecisionLog(path)
        logs[path].append(Decision(0, 0, "hold", text, executors=1))

    def read(path: Path) -> str:
        return "".join(decision.reason for decision in read_decisions(path))

    return Writer(write, read)


def writers() -> dict[str, Writer]:
    def parsed(path: Path) -> str:
        return str(json.loads(path.read_text()))

    return {
        "text": Writer(write_text),
        "synced text": Writer(lambda path, text: write_text(path, text, synced=True)),
        "json": Writer(write_json, parsed),
        "synced json": Writer(lambda path, text: write_json(path, text, synced=True), parsed),
        "picture": Writer(lambda path, text: write_picture(path, Picture(text))),
        "lines": line_writer(),
        "lines in new files": line_writer(max_bytes=1),
        "decisions": decision_writer(),
    }


@contextmanager
def small_files(_: Path) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def no_descriptors(_: Path) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    with ExitStack() as held:
        while (taken := _another()) is not None:
            held.callback(os.close, taken)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _another() -> int | None:
    try:
        return os.dup(1)
    except OSError:
        return None


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Fill the small disk that the folder is on, but for a few pages."""
    ballast = folder / "ballast"
    room = os.statvfs(folder)
    ballast.write_bytes(bytes((room.f_bavail - 3) * room.f_bsize))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def read_only_folder(folder: Path) -> Iterator[None]:
    folder.chmod(0o500)
    for file in folder.iterdir():
        file.chmod(0o400)
    try:
        yield
    finally:
        folder.chmod(0o700)
        for file in folder.iterdir():
            file.chmod(0o600)


@contextmanager
def failing_sync(_: Path, *, calls: int = 1) -> Iterator[None]:
    """Let the ``calls``-th sync of a write fail: the file's, then its folder's."""
    number = 0

    def fsync(descriptor: int, real: Callable[[int], None] = os.fsync) -> None:
        nonlocal number
        number += 1
        if number == calls:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with patch.object(os, "fsync", fsync):
        yield


FAULTS: dict[str, Callable[[Path], Any]] = {
    "small files": small_files,
    "no descriptors": no_descriptors,
    "full disk": full_disk,
    "read-only folder": read_only_folder,
    "failing sync": failing_sync,
    "failing sync of the folder": lambda folder: failing_sync(folder, calls=2),
}


def outcome(writer: Writer, fault: Callable[[Path], Any], folder: Path) -> Outcome:
    path = folder / "file.svg"
    error = None
    writer.write(path, "a")
    before = writer.read(path)
    with fault(folder):
        try:
            writer.write(path, "b" * LONG)
        except OSError as raised:
            error = raised.errno or 0
    names = sorted(file.name for file in folder.iterdir())
    after = writer.read(path)
    writer.write(path, "c")
    return Outcome(error, before, after, writer.read(path), names)


def main(fault: str, folder: Path) -> None:
    every = writers()
    folders = {name: folder / name for name in every}
    for each in folders.values():
        each.mkdir()
    if fault == "read-only folder" and os.geteuid() == 0:  # root may write everywhere
        with tempfile.TemporaryDirectory() as scratch:  # what they import, others may not read
            for name, writer in every.items():
                writer.write(Path(scratch) / f"{name}.svg", "a")
        for each in (folder, *folders.values()):
            os.chown(each, NOBODY, NOBODY)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    found = {name: outcome(each, FAULTS[fault], folders[name]) for name, each in every.items()}
    print(json.dumps({name: asdict(each) for name, each in found.items()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
