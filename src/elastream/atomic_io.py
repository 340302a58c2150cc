"""Files that are whole or absent: a temporary file is written and renamed.

A failure leaves the old file alone; a process that is killed leaves at most a hidden file. Callers
turn an ``OSError`` into a message: they know which setting named the path.
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
    """A figure of matplotlib."""

    def savefig(self, fname: Path, *, dpi: int, format: str) -> None:  # noqa: A002 - its own name
        """Write the picture."""


@contextmanager
def replacing(path: Path, *, synced: bool = False, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty file next to ``path``, which replaces it where the block does not fail.

    The file's name is hidden and does not end as ``path`` does. ``synced`` files are on the disk,
    under their name, when the block ends. ``mode`` is masked by the process's umask.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.touch(mode=mode, exist_ok=False)
    try:
        yield temporary
        if synced:
            _sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if synced:
        _sync(path.parent)


def write_text(path: Path, text: str, *, synced: bool = False, mode: int = 0o666) -> None:
    """Write the text, whole or not at all."""
    with replacing(path, synced=synced, mode=mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(
    path: Path, content: object, *, indent: int | None = None, synced: bool = False
) -> None:
    """Write the content as JSON, whole or not at all; raises ``ValueError`` where it has NaN."""
    text = json.dumps(content, indent=indent, allow_nan=False)
    write_text(path, f"{text}\n", synced=synced)


def make_folder(path: Path) -> Path:
    """Make the folder and those above it that are missing, each on the disk when this returns."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)
    return path


def write_picture(path: Path, figure: Drawn) -> None:
    """Write the figure, whole or not at all, in the format that the file's ending says."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix.removeprefix(".").lower())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
