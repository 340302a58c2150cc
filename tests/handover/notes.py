"""What a log of a handover says, for tests: its notes, and who owns a window by each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from elastream.handover.ledger import Note, Side
from elastream.handover.messages import boundary_from


def owner_of(coordinate: int, note: Note) -> Side | None:
    """Return who owns the window that starts at ``coordinate``; ``None`` where it is not known."""
    if note.owner == "origin":
        return "origin"
    if note.owner == "undecided" or note.boundary is None:
        return None
    return "origin" if coordinate < note.boundary.activation else "target"


def read_notes(path: Path) -> Iterator[Note]:
    """Yield the notes of a log; a torn last line is passed over."""
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return
        fields = json.loads(line)
        boundary = fields["boundary"]
        yield Note(
            fields["side"],
            fields["kind"],
            fields["handover"],
            fields["owner"],
            fields["reason"],
            None if boundary is None else boundary_from("boundary", boundary),
        )
