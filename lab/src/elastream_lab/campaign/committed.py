"""How many of the fed files a query has committed, as its checkpoint shows."""

from __future__ import annotations

import json
from pathlib import Path


def committed_files(checkpoint: Path, sources: int) -> int:
    """Return how many files committed batches have read, of the source that has read fewest."""
    numbers = [int(file.name) for file in _files(checkpoint / "commits") if file.name.isdigit()]
    if not numbers:
        return 0
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[2:]
    ends = [json.loads(line)["logOffset"] if line != "-" else -1 for line in lines[:sources]]
    return min(
        sum(number <= end for number in _batches(checkpoint / "sources" / str(source)))
        for source, end in enumerate(ends)
    )


def _batches(log: Path) -> list[int]:
    """Return the batch of each file that the source's log names, once a file."""
    named: dict[str, int] = {}
    for file in _files(log):
        for line in file.read_text().splitlines()[1:]:
            fields = json.loads(line)
            named[fields["path"]] = fields["batchId"]
    return list(named.values())


def _files(folder: Path) -> list[Path]:
    try:
        return [file for file in folder.iterdir() if not file.name.startswith(".")]
    except FileNotFoundError:
        return []
