"""What is wrong after a run: with the answers, with what was left, with what the log shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from elastream.spark.sessions.spark_home import cache_folder
from elastream_lab.campaign.answers import ANSWERS, Values
from elastream_lab.campaign.folders import Folders
from elastream_lab.campaign.rows import Row
from elastream_lab.campaign.scenario import Scenario
from elastream_lab.campaign.shapes import SHAPES, Shape

_SHOWN: Final = 3
_STORE: Final = {"checkpoints", "lost+found"}
_CHECKPOINT: Final = {"commits", "metadata", ".metadata.crc", "offsets", "sources", "state"}
_NATIVE: Final = ("liblz4-java-", "librocksdbjni", "libzstd-jni", "snappy-", "jansi-")
"""Libraries that a JVM unpacks and removes as it ends, unless it is killed."""
_DRIVERS: Final = ("artifacts-", "blockmgr-", "spark-", "temporary-")
"""Folders that the driver's JVM removes as it ends, unless it is killed."""
_SESSIONS: Final = ("elastream-",)
"""Folders that the driver's Python process removes as it ends, unless it is killed."""


def wrong_answers(scenario: Scenario, folders: Folders, rows: Sequence[Row]) -> Iterator[str]:
    """Yield in what the output of a query differs from a computation over all rows."""
    for query in scenario.queries:
        reports = answered(folders.output(query.name), SHAPES[query.shape])
        right = ANSWERS[query.shape](rows)
        if reports != right:
            missing, more = (
                _first((right - reports).elements()),
                _first((reports - right).elements()),
            )
            yield (
                f"{query.name} ({query.shape}): {reports.total()} rows, {right.total()} expected; "
                f"missing {missing}; too many {more}"
            )


def answered(output: Path, shape: Shape) -> Counter[Values]:
    """Return what a query has reported in the end: of updates the last of each key."""
    rows = [
        tuple(row) for file in sorted(output.glob("*.json")) for row in json.loads(file.read_text())
    ]
    if shape.mode == "append":
        return Counter(rows)
    return Counter({row[: shape.keys]: row for row in rows}.values())


def left_files(
    folders: Folders, cut: Iterable[int], jvms: Iterable[int], names: Iterable[str]
) -> list[str]:
    """Return what lies where nothing should.

    ``cut`` are the applications whose Python process was killed: no one was there to remove the
    session's own folder. ``jvms`` are those in which a JVM was killed: it leaves what it had
    unpacked, an executor's or the driver's. ``names`` are Spark's ids of those that were not cut.
    """
    forgiven: dict[str, tuple[str, ...]] = {}
    for number in jvms:
        forgiven[str(number)] = (*_NATIVE, *_DRIVERS)
    for number in cut:
        forgiven[str(number)] = (*_NATIVE, *_DRIVERS, *_SESSIONS)
    left = [
        path
        for folder in _inside(folders.root / "tmp")
        for path in _inside(folder)
        if not path.name.startswith(forgiven.get(folder.name, ()))
    ]
    left += [path for path in _inside(folders.store) if path.name not in _STORE]
    for checkpoint in _inside(folders.checkpoints):
        left += [path for path in _inside(checkpoint) if path.name not in _CHECKPOINT]
        left += [] if (checkpoint / "metadata").exists() else [checkpoint]
    cache = cache_folder()
    if cache is not None:
        left += [path for name in names for path in cache.glob(f"spark-*/work/{name}")]
    return [str(path) for path in left]


def left_of_killed(folders: Folders) -> list[str]:
    """Return what processes that were killed have left: to be reported, not to be blamed."""
    return [path.name for folder in _inside(folders.root / "tmp") for path in _inside(folder)]


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _first(rows: Iterable[Values]) -> str:
    listed = sorted(rows, key=str)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"{listed[:_SHOWN]}{more}" if listed else "none"
