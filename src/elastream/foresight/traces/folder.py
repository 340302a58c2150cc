"""A trace on disk: a folder that is valid only once its manifest is there.

::

  OUT/tasks/date=2020-03-01/…parquet   time, task, work, keys, state_bytes
  OUT/totals/…parquet                  time, rows, records
  OUT/nodes.json                       node counts, once ``elastream trace nodes`` made them
  OUT/manifest.json                    settings and counts, written last

A trace is built in a hidden folder next to ``OUT`` and replaces it when it is complete. A killed
build leaves that hidden folder, which the next one removes; readers reject a folder without a
manifest.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from elastream.atomic_io import write_json
from elastream.model.checks import count, expect_version
from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MANIFEST: Final = "manifest.json"
_NODES: Final = "nodes.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class TaskTrace:
    """Every task in every interval: arrays with a row per interval and a column per task."""

    work: NDArray[np.int64]
    """Records."""
    keys: NDArray[np.int64]
    """Keys held at the end."""
    state_bytes: NDArray[np.int64]
    """Their bytes."""

    @property
    def usual_state_bytes(self) -> NDArray[np.int64]:
        """Return the expected state of each task: the last if it only grows, else the mean."""
        grows = bool((np.diff(self.state_bytes.sum(axis=1)) >= 0).all())
        mean: NDArray[np.int64] = np.rint(self.state_bytes.mean(axis=0)).astype(np.int64)
        return self.state_bytes[-1] if grows else mean


def prepare(out: Path, *, overwrite: bool) -> Path:
    """Return an empty folder next to ``out`` to build the trace in.

    The content of ``out`` stays until the new trace is complete. A complete trace is rejected
    unless it may be overwritten, anything else always.
    """
    if (out / _MANIFEST).exists() and not overwrite:
        raise ProblemError("out", f"{out} holds a trace already; `overwrite` replaces it")
    if out.exists() and not out.is_dir():
        raise ProblemError("out", f"{out} is a file; name a folder")
    if out.exists():
        known = {"tasks", "totals", _NODES, _MANIFEST}
        strange = sorted(entry.name for entry in out.iterdir() if entry.name not in known)
        if strange:
            raise ProblemError("out", f"{out} holds {strange[0]}, which is not part of a trace")
    unfinished = out.absolute().with_name(f".{out.absolute().name}.unfinished")
    try:
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise ProblemError("out", f"{out} cannot be made: {error.strerror}") from None
    return unfinished


def publish(unfinished: Path, out: Path) -> None:
    """Replace the old trace by a complete new one.

    The old one is moved aside, and removed when the new one is in place: whatever interrupts this,
    one of them is complete under the name or next to it.
    """
    aside = out.absolute().with_name(f".{out.absolute().name}.replaced")
    if aside.exists():  # left behind by a run that was killed here
        shutil.rmtree(aside)
    there = out.exists()
    if there:
        out.rename(aside)
    try:
        unfinished.rename(out)
    except BaseException:
        if there:
            aside.rename(out)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def commit(out: Path, about: Mapping[str, object]) -> None:
    """Write the manifest atomically: from now on the folder is a trace."""
    write_json(out / _MANIFEST, {"version": _VERSION, **about}, indent=1)


def read_manifest(trace: Path) -> dict[str, Any]:
    """Return the manifest, or report that the folder holds no complete trace."""
    try:
        manifest = json.loads((trace / _MANIFEST).read_text())
    except OSError:
        raise ProblemError(
            str(trace), "is not a trace, or was not finished: it has no manifest"
        ) from None
    except ValueError:
        raise ProblemError(str(trace), f"its {_MANIFEST} is damaged") from None
    if not isinstance(manifest, dict):
        raise ProblemError(str(trace), f"its {_MANIFEST} is damaged")
    expect_version(str(trace), manifest.get("version"), newest=_VERSION)
    return manifest


def read_totals(trace: Path, of: str = "rows") -> tuple[int, ...]:
    """Return the total of every interval, ``rows`` or ``records``, in order."""
    read_manifest(trace)
    table = _table(trace / "totals", ["time", of])
    return tuple(table.sort_by("time").column(of).to_pylist())


def read_tasks(trace: Path) -> TaskTrace:
    """Return work and state of every task in every interval."""
    shape = _shape(trace, read_manifest(trace).get("report"))
    table = _table(trace / "tasks", ["time", "task", "work", "keys", "state_bytes"])
    table = table.sort_by([("time", "ascending"), ("task", "ascending")])
    if table.num_rows != shape[0] * shape[1]:
        raise ProblemError(str(trace), f"has {table.num_rows} rows of tasks, not {shape}")
    names = ("work", "keys", "state_bytes")
    return TaskTrace(*(table.column(name).to_numpy().reshape(shape) for name in names))


def write_nodes(trace: Path, content: Mapping[str, object]) -> None:
    """Keep node counts with the trace."""
    write_json(trace / _NODES, content, indent=1)


def read_nodes(trace: Path) -> dict[str, Any]:
    """Return the node counts kept with the trace, and how they were made."""
    read_manifest(trace)
    try:
        kept = json.loads((trace / _NODES).read_text())
    except (OSError, ValueError):
        raise ProblemError(str(trace), "has no node counts: run `elastream trace nodes`") from None
    if not isinstance(kept, dict) or not isinstance(kept.get("nodes"), list):
        raise ProblemError(str(trace / _NODES), "is damaged: run `elastream trace nodes` again")
    field = f"{trace / _NODES}: "
    least = count(f"{field}min", kept.get("min"))
    most = count(f"{field}max", kept.get("max"), least=least)
    nodes = [count(f"{field}nodes", n, least=least, most=most) for n in kept["nodes"]]
    return {**kept, "min": least, "max": most, "nodes": nodes}


def _shape(trace: Path, report: object) -> tuple[int, int]:
    fields = report if isinstance(report, dict) else {}
    field = f"{trace / _MANIFEST}: report."
    intervals, tasks = (count(field + name, fields.get(name)) for name in ("intervals", "tasks"))
    return intervals, tasks


def _table(folder: Path, columns: list[str]) -> Any:
    import pyarrow as pa
    from pyarrow import dataset

    try:
        return dataset.dataset(folder, format="parquet", partitioning="hive").to_table(columns)
    except (OSError, pa.ArrowException) as error:
        raise ProblemError(str(folder), f"cannot be read: {str(error).splitlines()[0]}") from None
