"""Planners get all they need as arguments: they read no file, no environment and no network."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "elastream"
PLANNERS = (
    "placement",
    "foresight/ahead",
    "foresight/mtm",
    "foresight/oms",
    "foresight/ssm",
    "replication/planner",
    "resilience/planner",
)
OUTSIDE = {"io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "urllib"}


def outside(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.split(".")[0] in OUTSIDE)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in OUTSIDE:
                yield module
            case ast.Call(func=ast.Name(id=("open" | "print" | "input") as name)):
                yield name


def test_no_planner_reads_or_writes_anything() -> None:
    files = sorted(file for each in PLANNERS for file in (SOURCE / each).rglob("*.py"))
    assert len(files) > 50
    assert {str(file): list(outside(file)) for file in files if list(outside(file))} == {}
