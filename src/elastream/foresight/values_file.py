"""Values on disk: one Parquet file, with its problem in the metadata.

A row is a partition: ``bounds``, and ``values``, one for each state of the chain, in bytes. The
file is written under another name and renamed, so it is complete or absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from elastream.atomic_io import replacing
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues
from elastream.model.checks import expect_version
from elastream.model.errors import ProblemError

_KEY: Final = b"elastream.values"
_VERSION: Final = 1


def write_values(path: Path, values: PartitionValues) -> None:
    """Write the values atomically."""
    import pyarrow as pa
    from pyarrow import parquet

    members, problem = values.members, values.problem
    about = {
        "version": _VERSION,
        "fingerprint": problem.fingerprint,
        "complete": values.complete,
        "problem": asdict(problem),
    }
    table = pa.table(
        {
            "bounds": [members.cut(i) for i in range(len(members))],
            "values": list(values.values.T),
        },
        schema=pa.schema(
            {"bounds": pa.list_(pa.int32()), "values": pa.list_(pa.float64())},
            metadata={_KEY: json.dumps(about)},
        ),
    )
    with _replacing(path) as temporary:
        parquet.write_table(table, temporary)


def read_values(path: Path) -> PartitionValues:
    """Return stored values; a damaged or foreign file is rejected."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
        about = json.loads((table.schema.metadata or {})[_KEY])
    except (OSError, pa.ArrowException) as error:
        why = str(error).splitlines()[0] if path.exists() else "it does not exist"
        raise ProblemError(str(path), f"cannot be read as values: {why}") from None
    except (KeyError, ValueError):
        raise ProblemError(str(path), "holds no values of partitions") from None
    expect_version(str(path), about.get("version"), newest=_VERSION)
    problem_fields = about["problem"]
    chain = problem_fields["chain"]
    ways = None if chain["directions"] is None else tuple(chain["directions"])
    problem = ProjectionProblem(
        tuple(problem_fields["work"]),
        tuple(problem_fields["state"]),
        problem_fields["tau"],
        MigrationChain(
            tuple(chain["sizes"]), tuple(map(tuple, chain["matrix"])), chain["gamma"], ways
        ),
    )
    if problem.fingerprint != about["fingerprint"]:
        raise ProblemError(str(path), "is damaged: its problem is not the one it was written for")
    cuts = table.column("bounds").to_pylist()
    values = np.array(table.column("values").to_pylist()).T
    return PartitionValues(problem, _in_order(cuts, len(problem.work)), values, about["complete"])


def _of_rows(bounds: Any, tasks: int) -> Partitions:
    return Partitions(bounds, (bounds[:, 1:] < tasks).sum(axis=1) + 1)


def _in_order(cuts: list[list[int]], tasks: int) -> Partitions:
    width = max(map(len, cuts))
    rows = [cut + [tasks] * (width - len(cut)) for cut in cuts]
    return _of_rows(np.array(rows, dtype=np.int64), tasks)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    try:
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        why = error.strerror or error
        raise ProblemError("out", f"{path} cannot be written: {why}") from None
