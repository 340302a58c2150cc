"""Files of the version before are read, and of a newer one refused in a line that says so.

The texts are as earlier versions have written them, so they are not made by the code of today.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from elastream import ProblemError, read_decisions
from elastream.cli.problem_files import read_fields
from elastream.foresight.traces.folder import read_manifest
from elastream.handover.ledger import RecordFile

DECISION = {
    "v": 2,
    "at_ms": 39499,
    "query": "busy",
    "batch": 33,
    "kind": "scale-out",
    "executors": 2,
    "utilisation": 0.9561,
    "reason": "scale-out to 3: utilisation 0.96",
    "figures": {"busiest": 0.9562, "wanted": 3},
}
MANIFEST = {"version": 1, "report": {"intervals": 2, "tasks": 4}}
PROBLEM = {"work": [3, 1], "state": [10, 5], "current": [[0, 1], [1, 2]], "nodes": 2, "tau": 0.4}
RECORD = {
    "v": 1,
    "handover": "h",
    "query": "sums",
    "state": "owns",
    "boundary": None,
    "term": None,
    "why": "",
    "confirmed": False,
    "finished": False,
}


def read_log(folder: Path, version: int) -> object:
    file = folder / "decisions.jsonl"
    file.write_text(json.dumps({**DECISION, "v": version}) + "\n")
    return [(each.kind, each.figures["wanted"]) for each in read_decisions(file)]


def read_trace(folder: Path, version: int) -> object:
    (folder / "manifest.json").write_text(json.dumps({**MANIFEST, "version": version}))
    return read_manifest(folder)["report"]


def read_plan(folder: Path, version: int) -> object:
    file = folder / "problem.json"
    file.write_text(json.dumps({"version": version, **PROBLEM}))
    return read_fields(file)


def read_record(folder: Path, version: int) -> object:
    file = folder / "record.json"
    file.write_text(json.dumps({**RECORD, "v": version}))
    record = RecordFile(file).read()
    return None if record is None else record.state


Read = Callable[[Path, int], object]


@pytest.mark.parametrize(
    ("read", "versions", "expected"),
    [
        (read_log, (2, 3), [("scale-out", 3)]),
        (read_trace, (1,), MANIFEST["report"]),
        (read_plan, (1,), PROBLEM),
        (read_record, (1,), "owns"),
    ],
)
def test_a_file_of_every_version_so_far_is_read(
    read: Read, versions: tuple[int, ...], expected: object, tmp_path: Path
) -> None:
    for version in versions:
        assert read(tmp_path, version) == expected


@pytest.mark.parametrize("read", [read_log, read_trace, read_plan, read_record])
def test_a_file_of_a_newer_version_is_refused_and_what_reads_it_is_named(
    read: Read, tmp_path: Path
) -> None:
    with pytest.raises(ProblemError) as raised:
        read(tmp_path, 9)
    line = r": has version 9; this elastream reads [\d to]+: read it with the newer elastream that "
    assert re.search(line + "wrote it$", str(raised.value))
