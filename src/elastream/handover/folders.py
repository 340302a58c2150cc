"""The folder of a query at one application: the files of its stay, and of those that are over.

=================  ================================================================================
``record.json``    what this application has given to the next; its lock is held while it runs
``taken.json``     what it has taken over from the previous one
``checkpoint``     Spark's; ``produced.json``, ``start.json``, ``probe``, ``counts`` go with it
``handover.jsonl`` the ownership log of all stays
``token``          for whoever takes the query over from here
``stays``          the files of stays that are over
=================  ================================================================================

A query comes back to an application as a new stay with a checkpoint of its own. The files of the
one before are put aside first, its record last: until then the folder says that it is over.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

from elastream.atomic_io import make_folder
from elastream.handover.ledger import RecordFile
from elastream.model.errors import ProblemError

_FILES: Final = ("checkpoint", "produced.json", "start.json", "probe", "taken.json", "record.json")


def given(folder: Path) -> RecordFile:
    """Return the record of what is given to the next application."""
    return RecordFile(folder / "record.json")


def taken(folder: Path) -> RecordFile:
    """Return the record of what was taken over from the previous one."""
    return RecordFile(folder / "taken.json")


def begin_stay(folder: Path) -> None:
    """Put the files of a stay that is over aside; any other stay continues where it stopped."""
    record = given(folder).read()
    if record is None or record.state != "committed":
        return
    if not record.finished:
        why = "has windows of its own to write, which were not handed over; start it there first"
        raise ProblemError(str(folder), why)
    past = next(
        each
        for number in count(1)
        if not (each := folder / "stays" / str(number) / "record.json").exists()
    ).parent
    make_folder(past)
    for name in _FILES:
        path = folder / name
        if path.exists():
            path.rename(past / name)
