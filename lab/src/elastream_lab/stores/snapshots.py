"""What a snapshot of RocksDB's state is made of, and what of it an earlier one had brought.

A version of a state store in a checkpoint is a small archive, ``N.zip``, with a list of table files
that lie next to it in ``SSTs``. A file that an earlier version listed is not written again. Between
snapshots there are the changes of each batch, ``N.changelog``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of one state store."""

    version: int
    archive_bytes: int
    tables: Mapping[str, int]
    """Size of each table file, in bytes, by its name in the checkpoint."""

    def brought(self, before: Snapshot | None) -> Mapping[str, int]:
        """Return the tables that the snapshot before it did not have."""
        known = {} if before is None else before.tables
        return {name: size for name, size in self.tables.items() if name not in known}


def snapshots(store: Path) -> tuple[Snapshot, ...]:
    """Return the snapshots in the folder of a state store, oldest first."""
    found = [
        Snapshot(int(match[1]), file.stat().st_size, _tables(file))
        for file in store.iterdir()
        if (match := re.fullmatch(r"(\d+)(_.*)?\.zip", file.name))
    ]
    return tuple(sorted(found, key=lambda snapshot: snapshot.version))


def changelog_bytes(store: Path) -> tuple[int, ...]:
    """Return the sizes of the changes of batches in the folder of a state store."""
    return tuple(file.stat().st_size for file in store.glob("*.changelog"))


def _tables(file: Path) -> dict[str, int]:
    with ZipFile(file) as archive:
        listed = json.loads(archive.read("metadata").decode().partition("\n")[2])
    return {table["dfsSstFileName"]: table["sizeBytes"] for table in listed["sstFiles"]}
