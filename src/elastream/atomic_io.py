"""Files that are whole or not there: written beside their place, then put into it.

What is replaced stays as it is until all of the new is written. A failure leaves the old file, and
nothing beside it; a process that is killed leaves at most a hidden file, which nobody reads.
What an ``OSError`` means to a person is said by whoever asks: they know which setting named the
path.

Model and planners read and write nothing; a contract in ``pyproject.toml`` keeps them from here.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class Drawn(Protocol):
    """A figure of matplotlib: what can save itself as a picture."""

    def savefig(self, fname: Path, *, dpi: int, format: str) -> None:  # noqa: A002 - its own name
        """Write the picture."""


@contextmanager
def replacing(path: Path, *, synced: bool = False, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty file beside ``path``, which takes its place where the block does not fail.

    The file's name is hidden and does not end as ``path`` does. ``synced`` files outlive a fall of
    the machine: they are on the disk, under their name, when the block ends. ``mode`` is what the
    process's mask is taken from.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    beside.touch(mode=mode, exist_ok=False)
    try:
        yield beside
        if synced:
            _sync(beside)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if synced:
        _sync(path.parent)


def write_text(path: Path, text: str, *, synced: bool = False, mode: int = 0o666) -> None:
    """Write the text, whole or not at all."""
    with replacing(path, synced=synced, mode=mode) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(
    path: Path, content: object, *, indent: int | None = None, synced: bool = False
) -> None:
    """Write the content as JSON, whole or not at all; raises ``ValueError`` where it is none."""
    text = json.dumps(content, indent=indent, allow_nan=False)
    write_text(path, f"{text}\n", synced=synced)


def make_folder(path: Path) -> Path:
    """Make the folder and those above it that are missing; each outlives a fall of the machine."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)
    return path


def write_picture(path: Path, figure: Drawn) -> None:
    """Write the figure, whole or not at all, in the format that the file's ending says."""
    with replacing(path) as beside:
        figure.savefig(beside, dpi=120, format=path.suffix.removeprefix(".").lower())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
