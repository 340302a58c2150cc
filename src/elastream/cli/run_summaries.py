"""The files that long commands write with ``--json`` and ``--picture``: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from elastream.atomic_io import write_json
from elastream.cli.quiet import line_of_failure
from elastream.extras import expect_installed
from elastream.model.errors import ProblemError

_PICTURES = (".png", ".svg", ".pdf")


def checked_target(option: str, path: Path | None) -> Path | None:
    """Return ``path``; refuse before a long run what could not be written at its end."""
    if path is None:
        return None
    if path.is_dir():
        raise ProblemError(option, f"{path} is a folder; name a file")
    if not os.access(path.parent, os.W_OK):
        raise ProblemError(option, f"the folder {path.parent} does not exist or is not writable")
    return path


def checked_picture(option: str, path: Path | None) -> Path | None:
    """Return ``path``; refuse before a long run where no picture could be drawn."""
    if path is not None:
        if path.suffix.lower() not in _PICTURES:
            raise ProblemError(option, f"{path} does not end in {', '.join(_PICTURES)}")
        expect_installed("matplotlib")
    return checked_target(option, path)


def write_summary(path: Path | None, summary: object) -> None:
    """Write ``summary`` as JSON, if there is a file to write it to."""
    if path is not None:
        write_json(path, summary, indent=1)


@contextmanager
def failure_written(path: Path | None, summary_of: Callable[[str], object]) -> Iterator[None]:
    """If the run fails, write what ``summary_of`` returns for the line of its error."""
    try:
        yield
    except BaseException as error:
        write_summary(path, summary_of(line_of_failure(error)))
        raise
